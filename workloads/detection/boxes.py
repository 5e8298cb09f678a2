"""Batched box geometry for the network and its data.

Dimension letters: N images, H rows, W columns, C channels, P points, M places for objects, D detections, 4 edges of
a box (left, top, right, bottom) or the distances from a point to them.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
import torch
from torch import Tensor


def giou_loss(given_NP4: Tensor, wanted_NP4: Tensor) -> Tensor:
    """1 - generalised IoU (Rezatofighi et al., arXiv:1902.09630) of boxes around the same point, given as distances."""
    least, most = torch.minimum(given_NP4, wanted_NP4), torch.maximum(given_NP4, wanted_NP4)
    shared, hull, given, wanted = ((x[..., :2] + x[..., 2:]).prod(-1) for x in (least, most, given_NP4, wanted_NP4))
    union = given + wanted - shared
    return 1 - shared / union + (hull - union) / hull


def survivors(boxes_ND4: Tensor, scores_ND: Tensor, labels_ND: Tensor, iou: float) -> Tensor:
    """Greedy non-maximum suppression per class; scores must descend. Returns bool (N, D).

    All pairwise IoUs at once, then one step per rank for all images; no value leaves the device.
    """
    area_ND = (boxes_ND4[..., 2:] - boxes_ND4[..., :2]).prod(-1)
    near = torch.maximum(boxes_ND4[:, :, None, :2], boxes_ND4[:, None, :, :2])
    far = torch.minimum(boxes_ND4[:, :, None, 2:], boxes_ND4[:, None, :, 2:])
    shared_NDD = (far - near).clamp(min=0).prod(-1)
    overlaps_NDD = shared_NDD > iou * (area_ND[:, :, None] + area_ND[:, None] - shared_NDD)
    overlaps_NDD &= labels_ND[:, :, None] == labels_ND[:, None]
    survives_ND = scores_ND > 0
    for rank in range(scores_ND.shape[1] - 1):
        survives_ND[:, rank + 1 :] &= ~(overlaps_NDD[:, rank, rank + 1 :] & survives_ND[:, rank : rank + 1])
    return survives_ND


def flipped(images_NHWC: Tensor, boxes_NM4: Tensor, which_N: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Images and boxes, mirrored along `axis` (1: rows, 2: columns) where `which_N` is true."""
    size, first = images_NHWC.shape[axis], 2 - axis  # a box is (left, top, right, bottom)
    mirrored_NM4 = boxes_NM4.clone()
    mirrored_NM4[..., first] = size - boxes_NM4[..., first + 2]
    mirrored_NM4[..., first + 2] = size - boxes_NM4[..., first]
    images_NHWC = torch.where(which_N[:, None, None, None], images_NHWC.flip(axis), images_NHWC)
    return images_NHWC, torch.where(which_N[:, None, None], mirrored_NM4, boxes_NM4)
