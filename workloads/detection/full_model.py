"""The network of the full suite: torchvision's RetinaNet with a ResNet-50 backbone and a feature pyramid.

RetinaNet: T.-Y. Lin, P. Goyal, R. Girshick, K. He, P. Dollár, arXiv:1708.02002. The loss is computed on whole batches,
where torchvision's goes image by image and makes the host wait several times for each.

Dimension letters: N images, H rows, W columns, P anchors, M places for objects, K classes, D detections, 4 edges of a
box.
"""

from __future__ import annotations

# ruff: noqa: N803, N806 (dimension letters)
from collections.abc import Mapping
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import box_iou, sigmoid_focal_loss
from torchvision.ops.feature_pyramid_network import LastLevelP6P7
from torchvision.ops.misc import FrozenBatchNorm2d

from workloads.detection.recipe import FullRecipe

NUM_CLASSES = 91  # of torchvision's models: the numbers of COCO's 80 categories are from 1 to 90
MAX_DETECTIONS = 100  # of an image: as many count
_OBJECT_IOU, _NOTHING_IOU = 0.5, 0.4  # an anchor between the two learns no class
_STRIDES = (8, 16, 32, 64, 128)


def build_model(suite: str, image_shape: tuple[int, int, int], num_classes: int, recipe: FullRecipe) -> nn.Module:
    """Build a detector with fresh weights for images_NCHW of any size that is a multiple of 32; see `FullDetector`.

    image_shape: not used. The weights are drawn from torch's global generator; `load_backbone` replaces a part of them.
    """
    return FullDetector(num_classes, recipe)


def build_optimizer(network: nn.Module, recipe: FullRecipe) -> torch.optim.Optimizer:
    """SGD with momentum, on the parameters that are trained. The session sets the learning rate before every step."""
    return torch.optim.SGD(
        [parameter for parameter in network.parameters() if parameter.requires_grad],
        lr=recipe.opt_base_learning_rate,
        momentum=recipe.opt_momentum,
        weight_decay=recipe.opt_weight_decay,
        fused=True,
    )


class FullDetector(RetinaNet):  # type: ignore[misc]
    """`retinanet_resnet50_fpn` as torchvision builds it on trained backbones: 34,014,999 parameters.

    The stem and the first stage of the backbone stay as they are, and so do the statistics of all its batch norms
    (`FrozenBatchNorm2d`), so there are none that could depend on the number of devices.
    """

    def __init__(self, num_classes: int, recipe: FullRecipe) -> None:
        backbone = getattr(torchvision.models, f"resnet{recipe.model_depth}")(norm_layer=FrozenBatchNorm2d)
        pyramid = _resnet_fpn_extractor(
            backbone,
            recipe.model_trainable_stages,
            returned_layers=[2, 3, 4],  # the finest level would have too many anchors, says the paper
            extra_blocks=LastLevelP6P7(256, 256),
        )
        super().__init__(pyramid, num_classes, detections_per_img=MAX_DETECTIONS)
        self.focal_alpha, self.focal_gamma = recipe.focal_alpha, recipe.focal_gamma

    def forward(self, images_NCHW: Tensor) -> dict[str, Tensor]:
        """`cls_logits` (N, P, K), `bbox_regression` (N, P, 4), and the `anchors` (P, 4), level by level."""
        features = list(self.backbone(images_NCHW).values())
        outputs: dict[str, Tensor] = self.head(features)
        one = ImageList(images_NCHW[:1], [tuple(images_NCHW.shape[-2:])])
        # In float32, whatever the features are: bf16 has no odd numbers above 256.
        anchors_P4 = torch.cat(self.anchor_generator(one, [level[:1].float() for level in features]))
        return outputs | {"anchors": anchors_P4}

    def loss(self, outputs: dict[str, Tensor], boxes_NM4: Tensor, labels_NM: Tensor) -> tuple[Tensor, Tensor]:
        """Two scalars: the sum over the images of RetinaNet's two losses, and the number of images.

        A loss is divided by the number of anchors that have an object, per image, as in torchvision.
        """
        anchors_P4 = outputs["anchors"]
        chosen_NP, is_object_NP, is_ignored_NP = self._matched(anchors_P4, boxes_NM4, labels_NM)
        labels_NP = labels_NM.gather(1, chosen_NP).where(is_object_NP, -1)
        logits_NPK = outputs["cls_logits"].float()
        classes_NPK = (labels_NP[..., None] == torch.arange(logits_NPK.shape[-1], device=labels_NP.device)).float()
        focal_NPK = sigmoid_focal_loss(logits_NPK, classes_NPK, self.focal_alpha, self.focal_gamma)
        class_N = (focal_NPK.sum(2) * ~is_ignored_NP).sum(1)
        wanted_NP4 = _encoded(boxes_NM4.gather(1, chosen_NP[..., None].expand(-1, -1, 4)), anchors_P4)
        apart_NP4 = functional.l1_loss(outputs["bbox_regression"].float(), wanted_NP4, reduction="none")
        box_N = apart_NP4.sum(2).where(is_object_NP, 0).sum(1)
        loss = ((class_N + box_N) / is_object_NP.sum(1).clamp(min=1)).sum()
        return loss, torch.full((), len(labels_NM), device=loss.device)

    def _matched(self, anchors_P4: Tensor, boxes_NM4: Tensor, labels_NM: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For every anchor the object that it covers best, whether that is its object, and whether it learns no class.

        As torchvision's `Matcher` with `allow_low_quality_matches`: an anchor that no other exceeds on some object has
        the object that it covers best, however little it covers.
        """
        is_object_NM = labels_NM >= 0
        iou_NMP = box_iou(boxes_NM4.flatten(0, 1), anchors_P4).unflatten(0, labels_NM.shape)
        iou_NMP = iou_NMP.where(is_object_NM[..., None], -1)
        best_NP, chosen_NP = iou_NMP.max(1)
        is_first_NP = ((iou_NMP == iou_NMP.amax(2, keepdim=True)) & is_object_NM[..., None]).any(1)
        is_object_NP = (best_NP >= _OBJECT_IOU) | is_first_NP
        return chosen_NP, is_object_NP, (best_NP >= _NOTHING_IOU) & ~is_object_NP

    def detect(
        self, outputs: dict[str, Tensor], shape: tuple[int, int], sizes: list[tuple[int, int]]
    ) -> list[dict[str, Tensor]]:
        """For each image its `boxes` (D, 4), `scores` and `labels`, best first, as torchvision computes them.

        shape: (H, W) of the batch. sizes: (H, W) of each image in it, without padding; of the first ones, if there are
        fewer than images.
        """
        height, width = shape
        num_anchors = self.anchor_generator.num_anchors_per_location()[0]
        per_level = [-(-height // stride) * -(-width // stride) * num_anchors for stride in _STRIDES]
        split = {
            name: list(torch.split(outputs[name].float(), per_level, 1)) for name in ("cls_logits", "bbox_regression")
        }
        anchors = [list(torch.split(outputs["anchors"], per_level))] * len(sizes)
        found: list[dict[str, Tensor]] = self.postprocess_detections(split, anchors, sizes)
        return found


def _encoded(boxes_NP4: Tensor, anchors_P4: Tensor) -> Tensor:
    """Boxes as RetinaNet predicts them: shifts of the centre in sizes of the anchor, and logarithms of the ratios."""
    size_P2, size_NP2 = anchors_P4[:, 2:] - anchors_P4[:, :2], boxes_NP4[..., 2:] - boxes_NP4[..., :2]
    shift_NP2 = (boxes_NP4[..., :2] + size_NP2 / 2 - anchors_P4[:, :2] - size_P2 / 2) / size_P2
    # An anchor without an object has a place without one; it is masked later, and must not be infinite until then.
    return torch.cat([shift_NP2, (size_NP2.clamp(min=1e-6) / size_P2).log()], -1)


def load_backbone(network: nn.Module, weights: Mapping[str, Any]) -> None:
    """Load torchvision's weights of a classifier into the backbone of a detector.

    Raises:
        RuntimeError: they are not those of this backbone.
    """
    body = {name: tensor for name, tensor in weights.items() if not name.startswith("fc.")}
    # FrozenBatchNorm2d has no count of batches, and drops it when it loads.
    network.get_submodule("backbone.body").load_state_dict(body)
