"""An execution plan of MSCCL++ as its file has it: fields and their types, and nothing of their meaning.

Fields that are not declared here are for the runtime's tuning (threads of a block, sizes of messages).
"""

from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, FailFast, Field, ValidationError

from overlayccl_core.program.kinds import Rejected

T = TypeVar("T")
Many = Annotated[tuple[T, ...], FailFast(), Field(max_length=2**16)]
Number = Annotated[int, Field(ge=0, le=2**20)]
Positive = Annotated[int, Field(ge=1, le=2**20)]
Buffer = Literal["i", "o", "s"]
Way = Literal["memory", "port", "switch", "none"]
OLDER = '"inputChunks"'  # a field of the layout before 2025
MAX_OBJECTS, MAX_CHARACTERS = 2**17, 2**24  # an operation is an object, and so is a span
SHOWN = 60  # characters of a wrong value
PLACES = {"gpus": "rank", "threadblocks": "thread block", "ops": "step"}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class MscclppSpan(_Part):
    """`size` chunks from `index` on, of a buffer of this rank, of another one, or of all ranks of a switch."""

    index: Number
    size: Positive
    type: Buffer | None = None
    buffer_id: Number | None = None
    switch_channel_id: Number | None = None


class MscclppShare(_Part):
    """`tbg_info`: the share `tb_id` of `tbg_size` of a step that a group of thread blocks does together."""

    tb_id: Number
    tbg_size: Positive


class MscclppLoop(_Part):
    """`iter_context`: units of `unit_size` bytes, up to the end of `num_chunks` chunks."""

    unit_size: Annotated[int, Field(ge=1)]
    num_chunks: Positive


class MscclppOperation(_Part):
    """One of `ops`; which fields it needs follows from its name."""

    name: str
    src_buff: Many[MscclppSpan] = ()
    dst_buff: Many[MscclppSpan] = ()
    channel_ids: Many[Number] = ()
    channel_type: Way = "none"
    reduce_op: str = "sum"
    tbg_info: MscclppShare | None = None
    barrier_id: Number | None = None
    num_threadblocks: Positive | None = None
    semaphore_ids: Many[Number] = ()
    iter_context: MscclppLoop | None = None
    ops: Many["MscclppOperation"] = ()


class MscclppBlockChannels(_Part):
    """Channels of the rank that a thread block uses; its steps count along these ids."""

    channel_type: Way
    channel_ids: Many[Number]


class MscclppRemoteRefs(_Part):
    """Remote buffers of the rank that a thread block uses; its steps count along these ids."""

    access_channel_type: Way
    remote_buffer_ids: Many[Number]


class MscclppBlock(_Part):
    """A thread block."""

    id: Number
    ops: Many[MscclppOperation]
    channels: Many[MscclppBlockChannels] = ()
    remote_buffer_refs: Many[MscclppRemoteRefs] = ()


class MscclppRankGroup(_Part):
    """Ranks whose buffers a switch channel has as one."""

    size: Positive
    ranks: Many[Number]


class MscclppChannels(_Part):
    """Channels of a rank: one for each peer in `connected_to`, or one for each group of a switch.

    `buff` is what older plans call `buffer_type`.
    """

    channel_type: Way
    connected_to: Many[Number] = ()
    buffer_type: Buffer | None = Field(default=None, validation_alias=AliasChoices("buffer_type", "buff"))
    rank_groups: Many[MscclppRankGroup] = ()


class MscclppRemoteBuffer(_Part):
    """A buffer of another rank, and the types of channels that reach it."""

    rank: Number
    type: Buffer
    access_channel_types: Many[Way]


class MscclppSemaphore(_Part):
    """A semaphore of a rank, for its thread blocks among each other."""

    init_value: Number


class MscclppGpu(_Part):
    """A rank: chunks of its buffers, thread blocks, channels."""

    id: Number
    input_chunks: Number
    output_chunks: Number
    scratch_chunks: Number
    threadblocks: Many[MscclppBlock]
    channels: Many[MscclppChannels] = ()
    remote_buffers: Many[MscclppRemoteBuffer] = ()
    semaphores: Many[MscclppSemaphore] = ()


class MscclppPlan(_Part):
    """A whole file."""

    name: str
    collective: str
    protocol: str
    inplace: bool
    gpus: Many[MscclppGpu]


def parse(text: str) -> MscclppPlan:
    """Return the plan of a text. Rejected: it is none; one line, with the place."""
    objects = text.count("{")
    if objects > MAX_OBJECTS or len(text) > MAX_CHARACTERS:
        raise Rejected(
            f"{objects} objects of JSON in {len(text)} characters are more than is read of a plan: {MAX_OBJECTS} "
            f"in {MAX_CHARACTERS}"
        )
    try:
        plan = MscclppPlan.model_validate_json(text.lstrip("\ufeff").encode(errors="replace"))
    except ValidationError as error:
        older = ": a plan of the older layout, write it again with a mscclpp of 2025 or later"
        raise Rejected(_said(error) + (older if OLDER in text else "")) from None
    if len(plan.gpus) < 2:
        raise Rejected(f"gpus has {len(plan.gpus)} ranks: a collective has two at least")
    for rank, gpu in enumerate(plan.gpus):
        if gpu.id != rank:
            raise Rejected(f"rank {rank}: its id is {gpu.id}: ranks stand in order, from 0 on")
        for number, block in enumerate(gpu.threadblocks):
            if block.id != number:
                raise Rejected(
                    f"rank {rank}, thread block {number}: its id is {block.id}: they stand in order, from 0 on"
                )
    return plan


def _said(error: ValidationError) -> str:
    """The first mistake, in one line."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['ctx']['error']}"
    words: list[str] = []
    for part in first["loc"]:
        if isinstance(part, int) and words:
            words[-1] += f" {part}"
        else:
            words.append(PLACES.get(str(part), str(part)))
    where = ", ".join(words) or "an execution plan of MSCCL++"
    if first["type"] == "missing":
        return f"{where}: must be there"
    value = " ".join(repr(first["input"])[: 2 * SHOWN].split())
    got = value if len(value) <= SHOWN else f"{value[:SHOWN]}..."
    return f"{where}: {first['msg']} (got {got})"
