"""The network: torchvision's FCOS over a small backbone with one level of features.

FCOS: Z. Tian, C. Shen, H. Chen, T. He, arXiv:2006.09214. Here it works on whole batches of tensors: torchvision
resizes, pads, matches and post-processes image by image in Python, which for images of one size is most of a step.

Dimension letters: N images, C channels, H rows, W columns, P points of the feature map, M places for objects,
K classes, D detections, 4 edges of a box (or the distances from a point to them).
"""

from __future__ import annotations

# ruff: noqa: N803, N806, N815 (dimension letters)
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.fcos import FCOS, FCOSHead
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import sigmoid_focal_loss

from workloads.detection.boxes import giou_loss, survivors
from workloads.detection.recipe import Recipe

WIDTHS = {"mini": (16, 32, 48), "standard": (24, 48, 96)}
NUM_RESIDUALS = {"mini": 1, "standard": 2}
NUM_COARSE = {"mini": 1, "standard": 2}  # stages coarser than the feature level
MAX_DETECTIONS = {"mini": 20, "standard": 100}  # per image; a mini scene has at most six objects
NUM_CANDIDATES = {"mini": 60, "standard": 400}  # (point, class) pairs per image that go into suppression
STRIDE = 8
MIN_SCORE = 0.05
NMS_IOU = 0.6


def build_model(suite: str, image_shape: tuple[int, int, int], num_classes: int, recipe: Recipe) -> nn.Module:
    """Build a freshly initialised detector for images_NCHW of `image_shape` (H, W, C); see `Detector` for its methods.

    The weights are drawn from torch's global generator.
    """
    network: nn.Module = Detector(suite, image_shape, num_classes, recipe)
    return network.to(memory_format=torch.channels_last)


class Detector(FCOS):  # type: ignore[misc]
    """FCOS with one feature level, at a stride of 8 pixels; loss and detections are computed on whole batches."""

    points_P2: Tensor

    def __init__(self, suite: str, image_shape: tuple[int, int, int], num_classes: int, recipe: Recipe) -> None:
        height, width, channels = image_shape
        backbone = Backbone(channels, WIDTHS[suite], NUM_RESIDUALS[suite], NUM_COARSE[suite])
        super().__init__(
            backbone,
            num_classes,
            anchor_generator=AnchorGenerator(((STRIDE,),), ((1.0,),)),
            head=Head(backbone.out_channels, num_classes),
            center_sampling_radius=recipe.center_sampling_radius,
            score_thresh=MIN_SCORE,
            nms_thresh=NMS_IOU,
            detections_per_img=MAX_DETECTIONS[suite],
            topk_candidates=NUM_CANDIDATES[suite],
        )
        self.focal_alpha, self.focal_gamma = recipe.focal_alpha, recipe.focal_gamma
        self.box_loss_weight = recipe.box_loss_weight
        self.image_size = height, width
        images = ImageList(torch.zeros(1, channels, height, width), [self.image_size])
        features = torch.zeros(1, 1, -(-height // STRIDE), -(-width // STRIDE))
        (anchors_P4,) = self.anchor_generator(images, [features])
        # torchvision puts its points at the corners of the cells; a cell sees what is around its middle.
        self.register_buffer("points_P2", anchors_P4.unflatten(1, (2, 2)).mean(1) + STRIDE / 2, persistent=False)

    def forward(self, images_NCHW: Tensor) -> dict[str, Tensor]:
        """`cls_logits` (N, P, K), `bbox_regression` (N, P, 4) in strides, `bbox_ctrness` (N, P, 1)."""
        outputs: dict[str, Tensor] = self.head(list(self.backbone(images_NCHW).values()))
        return outputs

    def loss(self, outputs: dict[str, Tensor], boxes_NM4: Tensor, labels_NM: Tensor) -> tuple[Tensor, Tensor]:
        """Two scalars: the sum of FCOS's three losses over the images, and the number of points that have an object."""
        edges_NP4, labels_NP = self._assigned(boxes_NM4, labels_NM)
        is_object_NP = labels_NP >= 0
        logits_NPK = outputs["cls_logits"].float()
        classes_NPK = (labels_NP[..., None] == torch.arange(logits_NPK.shape[-1], device=labels_NP.device)).float()
        loss = sigmoid_focal_loss(logits_NPK, classes_NPK, self.focal_alpha, self.focal_gamma, reduction="sum")
        # Compute every point and mask those without an object: selecting by mask would make the host wait.
        given_NP4 = outputs["bbox_regression"].float() * STRIDE
        loss = loss + self.box_loss_weight * (giou_loss(given_NP4, edges_NP4) * is_object_NP).sum()
        left, top, right, bottom = edges_NP4.unbind(-1)
        horizontal_NP = torch.minimum(left, right) / torch.maximum(left, right)
        centerness_NP = (horizontal_NP * torch.minimum(top, bottom) / torch.maximum(top, bottom)).sqrt()
        logits_NP = outputs["bbox_ctrness"].float().squeeze(-1)
        entropy_NP = functional.binary_cross_entropy_with_logits(logits_NP, centerness_NP, reduction="none")
        return loss + (entropy_NP * is_object_NP).sum(), is_object_NP.sum()

    def _assigned(self, boxes_NM4: Tensor, labels_NM: Tensor) -> tuple[Tensor, Tensor]:
        """For every point, the distances to the edges of its box (N, P, 4) and the box's label (N, P); -1 for none.

        A point is assigned to the smallest box that contains it and whose centre is near.
        """
        points_1P12 = self.points_P2[None, :, None]
        near_NM2, far_NM2 = boxes_NM4[..., :2], boxes_NM4[..., 2:]
        edges_NPM4 = torch.cat([points_1P12 - near_NM2[:, None], far_NM2[:, None] - points_1P12], -1)
        away_NPM = (points_1P12 - (near_NM2 + far_NM2)[:, None] / 2).abs().amax(-1)
        can_NPM = (edges_NPM4.amin(-1) > 0) & (away_NPM < self.center_sampling_radius * STRIDE)
        can_NPM &= (labels_NM >= 0)[:, None]
        area_NM = (far_NM2 - near_NM2).prod(-1)
        area_NP, chosen_NP = torch.where(can_NPM, area_NM[:, None], torch.inf).min(-1)
        labels_NP = labels_NM.gather(1, chosen_NP).where(area_NP < torch.inf, -1)
        edges_NP4 = edges_NPM4.gather(2, chosen_NP[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)
        # Points outside their box are masked later; until then they must not divide by zero.
        return edges_NP4.clamp(min=1e-3), labels_NP

    def detect(self, outputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """boxes_ND4 in pixels, scores_ND, labels_ND, best first; a score of 0 means no detection.

        Equivalent to torchvision's `postprocess_detections`, for all images at once and without making the host wait.
        """
        scores_NPK = outputs["cls_logits"].float().sigmoid() * outputs["bbox_ctrness"].float().sigmoid()
        num_classes = scores_NPK.shape[-1]
        flat = scores_NPK.sqrt().flatten(1)
        scores_ND, index_ND = flat.topk(min(self.topk_candidates, flat.shape[1]), 1)
        labels_ND = index_ND % num_classes
        chosen_ND = index_ND // num_classes
        edges_ND4 = outputs["bbox_regression"].float().gather(1, chosen_ND[..., None].expand(-1, -1, 4)) * STRIDE
        height, width = self.image_size
        points_ND2 = self.points_P2[chosen_ND]
        boxes_ND4 = torch.cat([points_ND2 - edges_ND4[..., :2], points_ND2 + edges_ND4[..., 2:]], -1)
        boxes_ND4 = boxes_ND4.clamp(min=0).minimum(boxes_ND4.new_tensor([width, height, width, height]))
        scores_ND = scores_ND * (scores_ND > self.score_thresh)
        scores_ND = scores_ND * survivors(boxes_ND4, scores_ND, labels_ND, self.nms_thresh)
        scores_ND, order_ND = scores_ND.sort(dim=1, descending=True, stable=True)
        scores_ND, order_ND = scores_ND[:, : self.detections_per_img], order_ND[:, : self.detections_per_img]
        boxes_ND4 = boxes_ND4.gather(1, order_ND[..., None].expand(-1, -1, 4))
        return boxes_ND4, scores_ND, labels_ND.gather(1, order_ND)


class Backbone(nn.Module):
    """Three halvings down to the feature level, coarser stages added back to it, then residual blocks."""

    def __init__(self, channels: int, widths: tuple[int, int, int], num_residuals: int, num_coarse: int) -> None:
        super().__init__()
        first, second, third = widths
        self.out_channels = third  # FCOS reads it
        self.stem = nn.Sequential(_conv_norm(channels, first, 5, 2), nn.ReLU(inplace=True))
        self.fine = nn.Sequential(
            _conv_norm(first, second, 3, 2), nn.ReLU(inplace=True),
            _conv_norm(second, third, 3, 2), nn.ReLU(inplace=True),
            _conv_norm(third, third, 3), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.coarse = nn.ModuleList(
            nn.Sequential(
                _conv_norm(third, third, 3, 2),
                nn.ReLU(inplace=True),
                _conv_norm(third, third, 3),
                nn.ReLU(inplace=True),
            )
            for _ in range(num_coarse)
        )
        self.residuals = nn.Sequential(*(Residual(third) for _ in range(num_residuals)))

    def forward(self, images_NCHW: Tensor) -> dict[str, Tensor]:
        levels = [self.fine(self.stem(images_NCHW))]
        for stage in self.coarse:
            levels.append(stage(levels[-1]))
        features_NCHW = levels.pop()
        while levels:
            finer_NCHW = levels.pop()
            features_NCHW = finer_NCHW + functional.interpolate(features_NCHW, size=finer_NCHW.shape[-2:])
        return {"features": self.residuals(features_NCHW)}


class Residual(nn.Module):
    """Two 3x3 convolutions around a shortcut (He et al., arXiv:1512.03385)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = _conv_norm(width, width, 3)
        self.second = _conv_norm(width, width, 3)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        y_NCHW = self.second(functional.relu(self.first(x_NCHW), inplace=True))
        return functional.relu(x_NCHW + y_NCHW, inplace=True)


class Head(FCOSHead):  # type: ignore[misc]
    """FCOS's head without towers: convolutions are better spent in the backbone, where both branches use them."""

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__(channels, 1, num_classes, num_convs=0)
        # Boxes start at 24 pixels. Around 0, where torchvision starts, the final ReLU keeps half of them from learning.
        nn.init.constant_(self.regression_head.bbox_reg.bias, 1.5)


def _conv_norm(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width))
