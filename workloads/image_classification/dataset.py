"""A split of the image classification data: images and their labels.

Dimension letters: N images, H rows, W columns, C channels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Split = tuple[Bytes, Ints]  # images_NHWC, labels_N
