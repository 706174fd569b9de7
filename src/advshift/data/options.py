"""What a recipe says of its data and of their augmentation. Light: it imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Augmentation", "DataOptions"]

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataOptions(_Options):
    """Which data, where they lie, how they are split and thinned.

    Attributes
    ----------
    name
        A set of `advshift.data.SOURCES`.
    path
        Where it lies; else the environment's `ADVSHIFT_DATA`, else the folder `data`.
    download
        Fetch it if it is not there, for the sets that have a known address.
    validation, test, held_out
        The shares of the training part that are cut off, stratified by class: for choosing, for judging where the set
        has no test part of its own, and for an adversary that reads losses of images that the learner never sees.
    split_seed
        Where the cuts are drawn from; apart from the run's seed, so that runs of several seeds share their parts.
    imbalance, imbalance_ratio
        Thin the training part: its most frequent class has so many times the examples of its rarest.
    prior
        Thin the training part to these class shares instead.
    val_part
        What a folder of images called `val` is: with a test set whose labels nobody has, as ImageNet's, it is what
        models are judged on, and the validation part is cut off from the training part.
    image_size, centre_crop, fit, grey
        For images of any size: the side that they are brought to, the share of it that evaluation looks at, whether an
        image that is not square is cropped, stretched or padded, and one channel instead of three.
    storage, memory_gigabytes
        Whether images are kept in memory or read from the disk as they are needed; `"auto"` keeps them if they take no
        more than so much.
    corrupt
        Whether an image that cannot be read stops the run or is left out.
    label, features
        For tables: the column of the labels, and those of the features; all others by default. For JSON lines, the
        fields of the label and of the text.
    max_features
        For text: the most frequent words that are kept.
    mean, std
        Of each channel (in units of the whole range) or feature; those of the training part by default.
    workers
        Processes that read images from the disk.
    """

    name: str
    path: str | None = None
    download: bool = False
    validation: Share = 0.1
    test: Share = 0.0
    held_out: Share = 0.0
    split_seed: Count = 0
    imbalance: Literal["none", "exponential", "step"] = "none"
    imbalance_ratio: Annotated[float, Field(ge=1.0)] = 1.0
    prior: tuple[Annotated[float, Field(ge=0.0)], ...] | None = None
    val_part: Literal["validation", "test"] = "validation"
    image_size: Positive | None = None
    centre_crop: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    fit: Literal["crop", "stretch", "pad"] = "crop"
    grey: bool = False
    storage: Literal["auto", "memory", "stream"] = "auto"
    memory_gigabytes: Annotated[float, Field(ge=0.0)] = 4.0
    corrupt: Literal["fail", "skip"] = "fail"
    label: str | None = None
    features: tuple[str, ...] | None = None
    max_features: Positive = 5000
    mean: tuple[float, ...] | None = None
    std: tuple[Annotated[float, Field(gt=0.0)], ...] | None = None
    workers: Count = 2

    @model_validator(mode="before")
    @classmethod
    def _one_thinning(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("prior") is not None and values.get("imbalance", "none") != "none":
            raise ValueError("data.imbalance and data.prior both thin the training part; keep one of them")
        return values


class Augmentation(_Options):
    """What is done to a training batch, drawn for every image anew.

    Attributes
    ----------
    crop
        Pad by so many pixels and cut out a window of the old size.
    flip
        Mirror half of the images.
    random_resized_crop
        Cut out 8 to 100 % of the area and stretch it, as for ImageNet.
    cutout
        Blank a square of this side.
    mixup, cutmix
        The parameter of the Beta distribution of the mixing weight, drawn for each image; 0 for none. With both, an
        image gets one of them.
    """

    crop: Count = 0
    flip: bool = False
    random_resized_crop: bool = False
    cutout: Count = 0
    mixup: Annotated[float, Field(ge=0.0)] = 0.0
    cutmix: Annotated[float, Field(ge=0.0)] = 0.0
