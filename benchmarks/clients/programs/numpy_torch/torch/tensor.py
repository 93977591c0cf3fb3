"""Tensors in device memory: views, conversions, and their elements as numpy's arrays."""

import numpy as np

from torch.driver import HostMemory, Memory, PinnedMemory
from torch.types import ALIASES, TYPES, device as Device, dtype as Type, from_numpy_type

_SMALL_FLOATS = frozenset({"float16", "bfloat16"})


def as_type(kind):
    """Return an element type from torch's, a name, or Python's own."""
    if isinstance(kind, Type):
        return kind
    python = {float: "float32", int: "int64", bool: "bool"}.get(kind)
    return TYPES[python or ALIASES.get(str(kind), str(kind))]


class Tensor:
    """A strided view of an allocation."""

    requires_grad = False
    grad = None

    def __init__(self, memory, kind, shape, strides, offset=0, place=None):
        self.memory, self.dtype, self.shape = memory, kind, Size(shape)
        self.strides, self.offset = tuple(strides), offset
        self.device = place or Device("cuda")

    # Where it is.
    def data_ptr(self):
        """Return the address of the first element."""
        return self.memory.address + self.offset * self.dtype.itemsize

    def stride(self, dim=None):
        """Return the strides in elements, or one of them."""
        return self.strides if dim is None else self.strides[dim]

    def numel(self):
        """Return the number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    nelement = numel

    def element_size(self):
        """Return the size of an element in bytes."""
        return self.dtype.itemsize

    def size(self, dim=None):
        """Return the shape, or one extent."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def ndim(self):
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_cuda(self):
        """Whether it is in device memory."""
        return self.device.type == "cuda"

    def get_device(self):
        """Return the device's number."""
        return self.device.index

    def is_contiguous(self):
        """Return whether its elements follow each other in order."""
        return self.strides == contiguous_strides(self.shape)

    # To numpy and back.
    def host(self):
        """Return the elements as an array that belongs to the caller."""
        return self._window(self.memory.read()).copy(order="K")

    def _window(self, data):
        itemsize = self.dtype.itemsize
        whole = np.frombuffer(data, f"u{itemsize}", offset=self.offset * itemsize)
        strides = [stride * itemsize for stride in self.strides]
        window = np.lib.stride_tricks.as_strided(whole, self.shape, strides)
        return window.view(self.dtype.numpy)

    def store(self, values, where=...):
        """Replace elements by values."""
        data = self.memory.read()
        self._window(data)[where] = values
        self.memory.write(data)
        return self

    def numpy(self):
        """Return the elements as an array."""
        return self.host()

    def tolist(self):
        """Return the elements as nested lists."""
        return self.host().tolist()

    def item(self):
        """Return the only element."""
        return self.host().item()

    # Conversions.
    def to(self, *wanted, dtype=None, device=None, **_):
        """Return it with another type, on another device, or both."""
        kind, place = self.dtype, self.device
        for value in (*wanted, dtype, device):
            if isinstance(value, Tensor):
                kind, place = value.dtype, value.device
            elif isinstance(value, Device) or value in ("cuda", "cpu", "cuda:0"):
                place = Device(str(value))
            elif value is not None and not isinstance(value, bool):
                kind = as_type(value)
        if (kind, place) == (self.dtype, self.device):
            return self
        return make(self.host(), kind, place)

    def type(self, kind):
        """Return it with another type."""
        return self.to(as_type(kind))

    def cpu(self):
        """Return a copy in the host's memory."""
        return self.to("cpu")

    def cuda(self):
        """Return a copy in device memory."""
        return self.to("cuda")

    def half(self):
        """Return it as float16."""
        return self.to(TYPES["float16"])

    def float(self):
        """Return it as float32."""
        return self.to(TYPES["float32"])

    def double(self):
        """Return it as float64."""
        return self.to(TYPES["float64"])

    def bfloat16(self):
        """Return it as bfloat16."""
        return self.to(TYPES["bfloat16"])

    def int(self):
        """Return it as int32."""
        return self.to(TYPES["int32"])

    def long(self):
        """Return it as int64."""
        return self.to(TYPES["int64"])

    def bool(self):
        """Return it as bool."""
        return self.to(TYPES["bool"])

    # Views.
    def as_strided(self, shape, strides, offset=None):
        """Return a view with any shape and strides."""
        start = self.offset if offset is None else offset
        return Tensor(self.memory, self.dtype, shape, strides, start, self.device)

    def permute(self, *dims):
        """Return a view with its dimensions in another order."""
        order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        return self.as_strided([self.shape[d] for d in order], [self.strides[d] for d in order])

    def transpose(self, first, second):
        """Return a view with two dimensions exchanged."""
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.permute(*order)

    def t(self):
        """Return the transposed matrix."""
        return self.transpose(0, 1) if self.ndim == 2 else self

    @property
    def T(self):
        """The dimensions in reverse order."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self):
        """The last two dimensions exchanged."""
        return self.transpose(-1, -2)

    def view(self, *shape):
        """Return another shape, or another type of the same bytes."""
        if len(shape) == 1 and isinstance(shape[0], (Type, str)):
            return self._as_bytes_of(as_type(shape[0]))
        return self.reshape(*shape)

    def _as_bytes_of(self, kind):
        ratio = self.dtype.itemsize / kind.itemsize
        shape = [*self.shape[:-1], round(self.shape[-1] * ratio)] if self.shape else self.shape
        strides = [round(stride * ratio) for stride in self.strides[:-1]] + [1] * bool(self.shape)
        return Tensor(self.memory, kind, shape, strides, round(self.offset * ratio), self.device)

    def reshape(self, *shape):
        """Return another shape: a view where it can be one."""
        requested_shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        exact = np.empty(self.shape, np.bool_).reshape(requested_shape).shape
        if self.is_contiguous():
            return self.as_strided(exact, contiguous_strides(exact))
        return make(self.host().reshape(exact), self.dtype, self.device)

    def flatten(self):
        """Return one dimension."""
        return self.reshape(-1)

    ravel = flatten

    def squeeze(self, dim=None):
        """Return it without dimensions of extent 1."""
        return self.reshape(np.empty(self.shape, np.bool_).squeeze(dim).shape)

    def select(self, dim, index):
        """Return the part at one place of a dimension, without that dimension."""
        return self[(slice(None),) * (dim % self.ndim) + (index,)]

    def unsqueeze(self, dim):
        """Return it with one more dimension of extent 1."""
        return self.reshape(np.expand_dims(np.empty(self.shape, np.bool_), dim).shape)

    def expand(self, *shape):
        """Return it repeated along dimensions of extent 1."""
        requested_shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        padded_shape = (1,) * (len(requested_shape) - self.ndim) + tuple(self.shape)
        exact = [k if w == -1 else w for w, k in zip(requested_shape, padded_shape, strict=True)]
        strides = (0,) * (len(requested_shape) - self.ndim) + self.strides
        moved = [0 if k == 1 else s for k, s in zip(padded_shape, strides, strict=True)]
        return self.as_strided(exact, moved)

    def expand_as(self, other):
        """Return it with another's shape."""
        return self.expand(*other.shape)

    def contiguous(self):
        """Return it with its elements in order."""
        if self.is_contiguous():
            return self
        return make(np.ascontiguousarray(self.host()), self.dtype, self.device)

    @property
    def data(self):
        """The tensor without its gradient."""
        return self

    def broadcast_to(self, shape):
        """Return it repeated along dimensions of extent 1."""
        return self.expand(*shape)

    def repeat(self, *counts):
        """Return it several times along its dimensions."""
        return make(np.tile(self.host(), counts), self.dtype, self.device)

    def flip(self, *dims):
        """Return it with dimensions in reverse."""
        return make(np.flip(self.host(), dims), self.dtype, self.device)

    def repeat_interleave(self, count, dim=None):
        """Return it with each element several times along a dimension, or in one dimension."""
        return make(np.repeat(self.host(), count, dim), self.dtype, self.device)

    def unique(self):
        """Return the different elements in order."""
        return make(np.unique(self.host()), self.dtype, self.device)

    def clone(self):
        """Return a copy."""
        return make(self.host(), self.dtype, self.device)

    def detach(self):
        """Return the same tensor: there is no gradient to leave."""
        return self

    def requires_grad_(self, requires_grad=True):
        """Record whether gradients are wanted, and return it."""
        self.requires_grad = requires_grad
        return self

    def __getitem__(self, where):
        index = host_of(where)
        if isinstance(index, (int, slice)) or index is None or index is Ellipsis:
            index = (index,)
        simple = isinstance(index, tuple) and all(
            isinstance(part, (int, slice)) or part is None or part is Ellipsis for part in index
        )
        if not simple:
            return make(self.host()[index], self.dtype, self.device)
        probe = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), self.shape, self.strides)
        # With an ellipsis numpy returns a view, even of no dimensions.
        part = probe[index if Ellipsis in index else (*index, ...)]
        start = part.__array_interface__["data"][0] - probe.__array_interface__["data"][0]
        return self.as_strided(part.shape, part.strides, self.offset + start)

    def __setitem__(self, where, values):
        self.store(host_of(values), host_of(where))

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        return int(self.item())

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return f"tensor({self.host()}, device={self.device}, dtype={self.dtype})"

    def __array__(self, *_, **__):
        return self.host()


class Size(tuple):
    """A shape."""

    __slots__ = ()

    def numel(self):
        """Return the number of elements."""
        return int(np.prod(self, dtype=np.int64))


def contiguous_strides(shape):
    """Return the strides, in elements, of a dense row-major tensor."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def allocate(shape, kind, place, pinned=False):
    """Return a tensor whose elements are not initialized."""
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    in_host = PinnedMemory if pinned else HostMemory
    memory = (in_host if place.type == "cpu" else Memory)(size)
    return Tensor(memory, kind, shape, contiguous_strides(shape), 0, place)


def make(values, kind=None, place=None):
    """Return a tensor with these values, and with the order of a dense array's dimensions."""
    array = np.asarray(values)
    if kind is None:
        kind = from_numpy_type(array.dtype)
    order = sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
    if not array.flags.c_contiguous and array.transpose(order).flags.c_contiguous:
        dense = make(array.transpose(order), kind, place)
        return dense.permute([order.index(dim) for dim in range(array.ndim)])
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype != kind.numpy:
        with np.errstate(all="ignore"):
            array = array.astype(kind.numpy)
    result = allocate(array.shape, kind, place or Device("cpu"))
    result.memory.write(bytearray(array.tobytes()))
    return result


def host_of(value):
    """Replace tensors by arrays, in tuples and lists too."""
    if isinstance(value, Tensor):
        return value.host()
    if isinstance(value, (tuple, list)):
        return type(value)(host_of(part) for part in value)
    return value


def wide(array):
    """Return small floating-point numbers as float32, in which torch computes them."""
    name = str(array.dtype)
    return array.astype(np.float32) if name in _SMALL_FLOATS or "float8" in name else array
