"""What every emitted torch module starts with: its two events, and those helpers that it uses."""

HEAD = '''\
"""{title}

Generated. `connect()` once on every rank, in the same order everywhere, then run a generator: it yields Read
(answer with a flat tensor, which stays yours) and Write (take `value`, a flat tensor, which is yours).
"""

import torch
import torch.distributed as dist

CASE = "{case}"
RANKS = {ranks}
DIGEST = {digest}
'''

EVENTS = '''
class Read:
    """Asks for an input."""

    __slots__ = ("port",)

    def __init__(self, *port):
        self.port = port


class Write:
    """Gives an output."""

    __slots__ = ("port", "value")

    def __init__(self, *port_and_value):
        self.port = port_and_value[:-1]
        self.value = port_and_value[-1]
'''

CONNECT_HELPERS = '''
def my_group(replica_groups, members, new_group):
    """This rank's process group; every rank makes all groups of all concurrent problems, in one order."""
    mine, me = None, dist.get_rank()
    for ranks in members:
        for group in replica_groups:
            wanted = tuple(ranks[r] for r in group)
            made = new_group(wanted)
            if me in wanted:
                mine = made
    return mine


def make_group(ranks):
    """A process group whose blocks are in the order of `ranks`."""
    if ranks == tuple(range(dist.get_world_size())):
        return dist.group.WORLD
    if list(ranks) == sorted(ranks):
        return dist.new_group(list(ranks))
    return dist.new_group(list(ranks), sort_ranks=False)
'''

HELPERS = {
    "all_reduce": '''
def all_reduce(x, group, op=dist.ReduceOp.SUM):
    """Starts in place: the result takes over x."""
    return x, dist.all_reduce(x, op=op, group=group, async_op=True)
''',
    "all_gather": '''
def all_gather(x, size, group):
    """Starts; the result has `size` elements."""
    y = x.new_empty(size)
    return y, dist.all_gather_into_tensor(y, x, group=group, async_op=True)
''',
    "reduce_scatter": '''
def reduce_scatter(x, size, group, op=dist.ReduceOp.SUM):
    """Starts; the result has `size` elements."""
    y = x.new_empty(size)
    return y, dist.reduce_scatter_tensor(y, x, op=op, group=group, async_op=True)
''',
    "all_to_all": '''
def all_to_all(x, group):
    """Starts."""
    y = torch.empty_like(x)
    return y, dist.all_to_all_single(y, x, group=group, async_op=True)
''',
    "collective_permute": '''
class Works:
    """Several works, waited for as one."""

    __slots__ = ("works",)

    def __init__(self, works):
        self.works = works

    def wait(self):
        for work in self.works:
            work.wait()


def collective_permute(x, peers, tag, group=None):
    """Starts. peers: the global ranks to send to and to receive from (None: nobody, -1: this rank itself).

    tag: of this module alone; a send of somebody else's between the same ranks does not meet it. group: of
    all ranks, where the library knows no tags.
    """
    to, source = peers
    if source == -1:
        return x.clone(), Works(())
    y = torch.zeros_like(x) if source is None else torch.empty_like(x)
    calls = [] if to is None else [(dist.isend, x, to)]
    if source is not None:
        calls.append((dist.irecv, y, source))
    if not x.is_cuda:
        return y, Works([call(t, peer, group=group, tag=tag) for call, t, peer in calls])
    # on a GPU one kernel does both: one behind the other, ranks could wait for each other
    operations = [dist.P2POp(call, t, peer, group, tag) for call, t, peer in calls]
    return y, Works(dist.batch_isend_irecv(operations) if calls else ())


def peers_of(sources, rank, ranks):
    """(to, source) of this rank; sources[r]: who sends to r, -1 for nobody; `ranks`: the global ones."""
    if sources[rank] == rank:
        return None, -1
    to = next((ranks[r] for r, source in enumerate(sources) if source == rank), None)
    return to, ranks[sources[rank]] if sources[rank] >= 0 else None
''',
    "join": '''
def join(table, operands):
    """This rank's pieces (operand or -1 for zeros, start, length), joined."""
    zeros = operands[0].new_zeros
    return torch.cat([operands[i][a : a + n] if i >= 0 else zeros(n) for i, a, n in table])
''',
    "pick_rows": '''
def pick_rows(x, width, table):
    """Rows of `width` elements by index; `holes` (or None) are the places that stay zero."""
    index, holes = table
    rows = x.view(-1, width).index_select(0, index)
    if holes is not None:
        rows.index_fill_(0, holes, 0)
    return rows.view(-1)


def row_table(runs, device):
    """(row index, places of zeros or None) from runs (first row or -1, rows)."""
    index = torch.cat([torch.full((n,), -1) if s < 0 else torch.arange(s, s + n) for s, n in runs]).to(device)
    holes = (index < 0).nonzero().view(-1)
    return index.clamp_(min=0), holes if holes.numel() else None
''',
}

SHIFTED = '''
def shifted(distance):
    """sources of a collective_permute: every rank receives from the one `distance` further."""
    return tuple((rank + distance) % RANKS for rank in range(RANKS))
'''
