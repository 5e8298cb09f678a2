"""A split of the detection data: images, and for each of them boxes and labels.

Dimension letters: N images, H rows, W columns, C channels, M places for objects, 4 edges of a box.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Split = tuple[Bytes, Floats, Ints]  # images_NHWC, boxes_NM4 (left, top, right, bottom), labels_NM (-1: no object)
