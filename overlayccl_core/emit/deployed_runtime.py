"""The classes of a deployed module: a Case, a Case that is connected, and its groups under autograd."""

ENTRY = '''
@dataclass(frozen=True)
class Spec:
    """What a port takes or gives on one rank; equal: the same on all ranks; valid_ranks: None, or where."""

    shape: tuple
    dtype: torch.dtype
    equal: bool = False
    valid_ranks: tuple | None = None


@dataclass(frozen=True)
class Entry:
    """A Case: who runs it, its ports by direction, its groups of ports, and two ways of running it.

    gradient: `backward` (backward() gives it), `in_backward` (the Case is the backward of an identity: it runs
    in the backward pass), `none`. tolerance: rms error over rms against the plain calls, by direction.
    permutes: it has some, chosen or plain. ungrouped: why a way of running it does not fall into groups, by name.
    """

    ranks: int
    members: tuple
    gradient: str
    inputs: dict
    outputs: dict
    groups: tuple
    tolerance: dict
    permutes: bool
    said: dict
    ungrouped: dict
    chosen: object
    plain: object

    def what(self):
        """Ranks, shapes and types, for messages."""
        shapes = dict.fromkeys((spec.shape, str(spec.dtype)) for spec in self.inputs["forward"].values())
        shown = [f"{shape} {dtype}" for shape, dtype in list(shapes)[:4]]
        more = ", ..." if len(shapes) > 4 else ""
        where = f"{self.ranks} ranks" + (f" x {len(self.members)}" if len(self.members) > 1 else "")
        return f"{where}, {len(self.inputs['forward'])} inputs of {', '.join(shown)}{more}"


def ports(*specs):
    """port -> Spec, from (Spec, ports) pairs."""
    return {port: spec for spec, names in specs for port in names}
'''

CONNECTED = '''
class Connected:
    """A Case with its process groups on this rank: generators for a driver, groups for your own script."""

    def __init__(self, case, entry, members, new_group, device, plain, permutes):
        self.case, self.entry, self.device, self.plain = case, entry, device, plain
        self._library, self._tested = Library(permutes), Library(permutes)
        self._members, self._new_group = members, new_group
        self._parts = self._build("plain" if plain else "chosen", self._library)
        self._groups = tuple(Group(self, number) for number in range(len(entry.groups)))

    def _build(self, way, library):
        """direction -> ((group, generator function), ...)"""
        ranks = next(group for group in self._members if dist.get_rank() in group)
        build = getattr(self.entry, way)
        rank = ranks.index(dist.get_rank())
        return build(library, self._members, self._new_group, ranks, rank, self.device)

    def forward(self):
        """A generator: it yields Read (answer with a flat tensor, which stays yours) and Write (take `value`)."""
        return _in_order(self._parts["forward"])

    def backward(self):
        """The same of the gradients, for a Case that has a backward of its own."""
        if "backward" not in self._parts:
            why = {"none": "there is none", "in_backward": "it IS one: call forward() in the backward pass"}
            raise RuntimeError(f"{self.case} has no backward of its own: {why[self.entry.gradient]}")
        return _in_order(self._parts["backward"])

    @property
    def groups(self):
        """All groups, as `group` gives them; RuntimeError where the calls do not fall into groups."""
        why = self.entry.ungrouped["plain" if self.plain else "chosen"]
        if why:
            plain = "" if self.entry.ungrouped["plain"] else ", or set OVERLAYCCL_PLAIN=1"
            raise RuntimeError(
                f"{self.case} does not fall into groups of reads and their writes ({why}): answer the events of"
                f" forward() and backward() in your step{plain}"
            )
        return self._groups

    def group(self, number):
        """The group of that number (the layer, where there are layers): call it with a list of tensors."""
        if number not in range(len(self.groups)):
            raise IndexError(f"{self.case} has groups 0 to {len(self.groups) - 1} (got {number!r})")
        return self.groups[int(number)]

    def stamp(self):
        """What runs, what it was proven with, what is here now, and the calls so far, by collective."""
        here = found(self.device)
        return {
            "case": self.case,
            "module": DIGEST,
            "runs": "plain" if self.plain else "chosen",
            **self.entry.said,
            "proven": dict(PROVEN),
            "found": here,
            "differs": _differences(here),
            "calls": dict(self._library.calls),
            "selftest_calls": dict(self._tested.calls),
        }

    def selftest(self, seed=0):
        """Run the chosen calls and the plain ones on random inputs and compare, on all ranks.

        Returns what was checked: direction, outputs, largest error (rms over rms) and tolerance.
        RuntimeError on all ranks, naming rank, port and error, where they differ by more.
        """
        chosen, plain = self._build("chosen", self._tested), self._build("plain", self._tested)
        checked = []
        for direction in chosen:
            given = self._random_inputs(direction, seed)
            kept = {port: x.clone() for port, x in given.items()}
            got, wanted = {}, {}
            with torch.no_grad():
                _answer([part for _, part in chosen[direction]], dict(given), got)
                _answer([part for _, part in plain[direction]], dict(given), wanted)
            me = dist.get_rank()
            mine = [(0.0, me, "")]
            for port, x in given.items():
                if not torch.equal(x, kept[port]):
                    mine.append((float("inf"), me, f"{port_text(port)} is an input, was overwritten, and"))
            for port in self._compared(direction):
                mine.append((_error(got[port], wanted[port]), me, port_text(port)))
            all_ranks = [None] * dist.get_world_size()
            dist.all_gather_object(all_ranks, max(mine, key=_badness))
            error, rank, port = max(all_ranks, key=_badness)
            tolerance = self.entry.tolerance[direction]
            if not error <= tolerance:
                raise RuntimeError(
                    f"{self.case} {direction}: {port} differs from the plain calls by {error:.3g} on rank {rank}"
                    f" (at most {tolerance:.3g} is allowed): set OVERLAYCCL_PLAIN=1 and deploy again"
                )
            line = {"case": self.case, "direction": direction, "outputs": len(wanted)}
            checked.append({**line, "error": error, "tolerance": tolerance})
        return checked

    def _random_inputs(self, direction, seed):
        made = {}
        for index, (port, spec) in enumerate(self.entry.inputs[direction].items()):
            random = torch.Generator().manual_seed(seed * 7919 + index)
            rows = 1 if spec.equal else dist.get_world_size()
            row = torch.randn(rows, *spec.shape, generator=random)[0 if spec.equal else dist.get_rank()]
            made[port] = row.reshape(-1).to(self.device, spec.dtype)
        return made

    def _compared(self, direction):
        ranks = next(group for group in self._members if dist.get_rank() in group)
        rank = ranks.index(dist.get_rank())
        outputs = self.entry.outputs[direction].items()
        return [port for port, spec in outputs if spec.valid_ranks is None or rank in spec.valid_ranks]


def _in_order(parts):
    for _, part in parts:
        yield from part()


def _answer(parts, given, results):
    """Run generators: answer Reads from `given`, each once, put Writes into `results`."""
    for part in parts:
        generator = part()
        try:
            event = next(generator)
            while True:
                if event.__class__ is Read:
                    event = generator.send(given.pop(event.port))
                else:
                    results[event.port] = event.value
                    event = next(generator)
        except StopIteration:
            pass


def _error(x, wanted):
    """rms error over rms."""
    off, size = _rms(x.double() - wanted.double()), _rms(wanted.double())
    return off / size if size else off


def _rms(x):
    return x.square().mean().sqrt().item()


def _badness(checked):
    error, rank, _ = checked
    return (error != error, error, -rank)  # what is no number is worst
'''

GROUPS = '''
class Group:
    """Inputs that exist together and the outputs made of them: a list of tensors in, a list of tensors out.

    `inputs` and `outputs` are the ports in the order of the lists. All ranks call it, in the same order.
    """

    def __init__(self, connected, number):
        entry = connected.entry
        self._connected, self.number = connected, number
        self.inputs, self.outputs = entry.groups[number]
        self._parts = {
            direction: [part for group, part in parts if group == number]
            for direction, parts in connected._parts.items()
        }
        self._specs = [entry.inputs["forward"][port] for port in self.inputs]
        self._given = [entry.outputs["forward"][port] for port in self.outputs]
        by_index = {port[1:]: i for i, port in enumerate(self.inputs)}
        same = [by_index.get(port[1:]) for port in self.outputs]
        self._like = [  # an output has the shape of the input of its index, if that has as many elements
            i if i is not None and self._specs[i].shape == spec.shape else None
            for i, spec in zip(same, self._given, strict=True)
        ]

    def __call__(self, tensors):
        tensors = self._checked(tensors)
        gradient = self._connected.entry.gradient
        if gradient == "backward":
            return list(_Through.apply(self, *tensors))
        if gradient == "in_backward":
            return list(_InBackward.apply(self, *tensors))
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            raise ValueError(
                f"{self._connected.case} passes no gradients on: call it under torch.no_grad() or with detached"
                " tensors (`parameter.grad`, not `parameter`)"
            )
        with torch.no_grad():
            return _apart(self.run("forward", tensors, self.shapes(tensors)), tensors)

    def shapes(self, tensors):
        """Of the outputs, given the inputs."""
        pairs = zip(self._like, self._given, strict=True)
        return [spec.shape if like is None else tensors[like].shape for like, spec in pairs]

    def run(self, direction, tensors, shapes):
        """The calls themselves, without autograd; backward: from cotangents of the outputs to those of inputs.

        Results may be parts of one buffer, or have the memory of an input.
        """
        reads, writes = self.inputs, self.outputs
        if direction == "backward":
            reads, writes = ([(f"d_{port[0]}", *port[1:]) for port in x] for x in (writes, reads))
        given = {port: x.detach().contiguous().view(-1) for port, x in zip(reads, tensors, strict=True)}
        results = {}
        with torch.autocast(self._connected.device.type, enabled=False):
            _answer(self._parts[direction], given, results)
        return [results[port].reshape(shape) for port, shape in zip(writes, shapes, strict=True)]

    def _checked(self, tensors):
        """A list that fits; a port of one axis takes any shape of as many elements."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        device = self._connected.device
        fits = len(tensors) == len(self._specs) and all(
            (x.shape == spec.shape or (len(spec.shape) == 1 and x.numel() == spec.shape[0]))
            and x.dtype is spec.dtype
            and x.device.type == device.type
            for x, spec in zip(tensors, self._specs, strict=True)
        )
        if not fits:
            pairs = zip(self.inputs, self._specs, strict=True)
            takes = _some(f"{port_text(port)} {spec.shape} {spec.dtype}" for port, spec in pairs)
            got = _some(f"{tuple(x.shape)} {x.dtype} on {x.device}" for x in tensors)
            raise ValueError(
                f"group {self.number} of {self._connected.case} takes a list of {len(self._specs)} tensors on"
                f" {device}: {takes}; got {len(tensors)}: {got}. {_what_there_is()}"
            )
        return tensors


class _Through(torch.autograd.Function):
    """forward and backward of a group."""

    @staticmethod
    def forward(ctx, group, *tensors):
        ctx.group, ctx.shapes = group, [x.shape for x in tensors]
        return tuple(_apart(group.run("forward", tensors, group.shapes(tensors)), tensors))

    @staticmethod
    @once_differentiable
    def backward(ctx, *cotangents):
        return (None, *_gradients(ctx.group.run("backward", cotangents, ctx.shapes), cotangents))


class _InBackward(torch.autograd.Function):
    """The identity; what the group computes is done to the gradients."""

    @staticmethod
    def forward(ctx, group, *tensors):
        ctx.group = group
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx, *cotangents):
        shapes = [x.shape for x in cotangents]
        return (None, *_gradients(ctx.group.run("forward", cotangents, shapes), cotangents))


def _apart(values, inputs):
    """Values of which each can be changed in place: no memory of an input's or another's, a version of its own."""
    taken = {x.untyped_storage().data_ptr() for x in inputs}
    apart, end = list(values), 0
    for i in sorted(range(len(values)), key=lambda i: values[i].data_ptr()):
        x = values[i]
        if x.data_ptr() < end or x.untyped_storage().data_ptr() in taken:
            apart[i] = x.clone()
        else:
            end = x.data_ptr() + x.nbytes
    # `.data` and not `.detach()`: parts of one buffer would count changes together, and autograd would take a
    # change of one for a change of what it keeps of another.
    return [x.data for x in apart]


def _gradients(values, cotangents):
    """`_apart`, but a cotangent that comes back is itself: autograd copies it where two leaves would share it."""
    back = {(x.data_ptr(), x.shape): x for x in cotangents if x.is_contiguous()}
    same = [back.get((x.data_ptr(), x.shape)) for x in values]
    others = iter(_apart([x for x, y in zip(values, same, strict=True) if y is None], cotangents))
    return [next(others) if y is None else y for y in same]


def _some(texts):
    texts = list(texts)
    return ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "")
'''
