"""Calls as users write them: lines of Python with fields, by group.

`{a}` and `{b}` are values, `{m}` a mask of a's shape, `{s}` a number, `{i}` an integer, `{d}` and
`{e}` dimensions, `{k}` a bool, `{at}` indices along d, `{to}` a dtype (`graphs.fields` has all).
A line that has no `=` of its own is the value itself; in others, `R` is the new value.
"""

UNARY = """
torch.{unary}({a})
torch.{unary}({a})
torch.{unary}({a})
torch.{unary}({a})
F.gelu({a})
F.gelu({a}, approximate='tanh')
F.silu({a})
F.softplus({a})
F.hardtanh({a}, -0.5, 0.5)
F.hardswish({a})
F.hardsigmoid({a})
F.leaky_relu({a}, 0.1)
F.elu({a})
F.mish({a})
F.relu6({a})
torch.clamp({a}, {s}, 4)
torch.clamp({a}, min={s})
torch.clamp({a}, max={s})
{a} ** 2
{a} ** 3
{a} ** 0.5
{a}.clone()
{a}.contiguous()
torch.zeros_like({a})
torch.ones_like({a})
torch.full_like({a}, {s})
"""
FUNCTIONS = """sin cos tan tanh sigmoid exp log sqrt rsqrt reciprocal erf expm1 log1p log2 log10
atan asinh sinh cosh ceil floor round trunc sign neg abs square relu isnan isinf logical_not
bitwise_not""".split()
BINARY = """
{a} + {b}
{a} - {b}
{a} * {b}
{a} / {b}
torch.add({a}, {b}, alpha={i})
torch.sub({a}, {b}, alpha={i})
torch.maximum({a}, {b})
torch.minimum({a}, {b})
torch.pow({a}, {b})
torch.remainder({a}, {b})
torch.fmod({a}, {b})
torch.atan2({a}, {b})
torch.eq({a}, {b})
torch.ne({a}, {b})
{a} < {b}
torch.le({a}, {b})
{a} > {b}
torch.ge({a}, {b})
torch.logical_and({a}, {b})
torch.logical_or({a}, {b})
torch.logical_xor({a}, {b})
{a} & {b}
{a} | {b}
{a} ^ {b}
torch.div({a}, {b}, rounding_mode='floor')
torch.div({a}, {b}, rounding_mode='trunc')
{a} // {b}
{a} << ({b} & 3)
{a} >> ({b} & 3)
torch.where({a} > 0, {a}, {b})
torch.where({m}, {a}, {b})
torch.where({m}, {a}, {s})
"""
SCALAR = """
{a} + {s}
{a} - {s}
{s} - {a}
{a} * {s}
{a} / {s}
{s} / {a}
torch.eq({a}, {i})
{a} < {s}
torch.ge({a}, {s})
torch.remainder({a}, {i})
torch.fmod({a}, {i})
{a} // {i}
torch.div({a}, {s}, rounding_mode='trunc')
{i} ** {a}
{a}.masked_fill({m}, {s})
{a} & {i}
{a} | {i}
{a} + True
torch.rsub({a}, {s}, alpha=2)
"""
REDUCTIONS = """
{a}.{reduction}({d}, keepdim={k})
{a}.{reduction}({d}, keepdim={k})
{a}.{reduction}({d}, keepdim={k})
{a}.std({d}, unbiased=False, keepdim={k})
{a}.cumsum({d})
{a}.cumprod({d})
{a}.max({d}, keepdim={k})[0]
{a}.max({d}, keepdim={k})[1]
{a}.min({d}, keepdim={k})[1]
torch.logsumexp({a}, {d}, keepdim={k})
torch.linalg.vector_norm({a}, 2, {d}, keepdim={k})
{a}.{whole}()
{a}.{whole}()
{a}.sum({dims}, keepdim={k})
{a}.mean({dims}, keepdim={k})
{a}.amax({dims})
{a}.var({dims})
{a}.sum({d}, dtype=torch.float32)
{a}.sum(dtype=torch.int64)
torch.softmax({a}, {d})
torch.log_softmax({a}, {d})
F.normalize({a}, dim={d})
{a}.cummax({d})[0]
"""
REDUCED = "sum mean amax amin prod any all var argmax argmin".split()
WHOLE = "sum mean max min any all argmax".split()
MOVES = """
{a}.reshape(-1)
{a}.reshape({shape})
{a}.permute({order})
{a}.transpose({d}, {e})
{a}.unsqueeze({d})
{a}.squeeze({d})
{a}.squeeze()
{a}.expand_as({b})
{a}.repeat({repeats})
torch.cat([{a}, {b}], {d})
torch.cat([{a}, {a}], {d})
torch.cat([{a}, {b}, {a}], {d})
torch.stack([{a}, {b}], {d})
{a}[{slices}]
{a}[{slices}]
{a}.select({d}, {end})
{a}.narrow({d}, 0, 1)
{a}.flip({d})
{a}.roll({i}, {d})
torch.roll({a}, {i})
{a}.split(2, {d})[{z}]
{a}.chunk(2, {d})[{z}]
{a}.unbind({d})[{z}]
F.pad({a}, {pads})
F.pad({a}, {pads}, value={s})
F.pad({a}, (1, 1), mode='reflect')
F.pad({a}, (1, 2), mode='replicate')
torch.tril({a}, {diagonal})
torch.triu({a}, {diagonal})
torch.diagonal({a}, {diagonal})
{a}.unfold({d}, 2, 1)
{a}.unfold({d}, 2, 2)
{a}.mT
{a}.flatten()
{a}.movedim({d}, {e})
torch.repeat_interleave({a}, 2, {d})
{a}.expand({wider})
{a}.contiguous(memory_format=torch.channels_last)
{a}.index_select({d}, {at})
torch.gather({a}, {d}, {places})
{a}[{at}]
{a}[:, {at}]
{a}.scatter({d}, {places}, {a})
{a}.scatter({d}, {places}, {s})
torch.scatter_add({a}, {d}, {places}, {a})
{a}.index_fill({d}, {at}, {s})
{a}.index_add({d}, {at}, {a}.index_select({d}, {at}))
{a}.topk(2, {d})[{z}]
{a}.sort({d}, stable=True)[{z}]
{a}.sort({d}, descending=True, stable=True)[{z}]
{a}.select_scatter({b}, {d}, 0)
torch.meshgrid({a}.reshape(-1)[:3], {a}.reshape(-1)[:2], indexing='ij')[{z}]
torch.arange({a}.shape[0])
torch.ones({a}.shape[0], dtype={to})
"""
LAYERS = """
{a} @ {b}
{a} @ {a}.mT
torch.mm({a}, {b})
F.linear({a}, torch.ones(3, {a}.shape[-1], dtype={a}.dtype))
F.linear({a}, weight(5, {a}), bias(5, {a}))
F.layer_norm({a}, {a}.shape[-1:])
F.group_norm({a}, 1)
F.rms_norm({a}, {a}.shape[-1:])
F.max_pool2d({a}, 2, 1)
F.avg_pool2d({a}, 2, 1)
F.avg_pool2d({a}, 2, 1, 1, count_include_pad=False)
F.avg_pool1d({a}, 2)
F.adaptive_avg_pool2d({a}, 1)
F.adaptive_avg_pool2d({a}, 2)
F.interpolate({a}, scale_factor=2, mode='nearest')
F.interpolate({a}, scale_factor=2, mode='bilinear')
F.interpolate({a}, size=(3, 3), mode='bilinear', align_corners=True)
F.interpolate({a}, size=(3, 5), mode='bilinear', antialias=True)
F.conv2d({a}, weight(3, {a}, 1, 2, 2), padding=1)
F.conv1d({a}, weight(3, {a}, 1, 2))
F.conv_transpose1d({a}, weight(3, {a}, 1, 2).transpose(0, 1), stride=2)
F.conv_transpose2d({a}, weight(3, {a}, 1, 2, 2).transpose(0, 1), stride=2, padding=1)
F.glu({a}, {d})
F.scaled_dot_product_attention({a}, {a}, {a})
F.batch_norm({a}, bias({a}.shape[1], {a}), bias({a}.shape[1], {a}) + 1)
torch.einsum('...i,...i->...', {a}, {a})
F.pixel_shuffle({a}, 2)
torch.baddbmm({b}, {a}, {a}.mT)
F.embedding({at}, {a})
torch.cdist({a}, {a})
torch.outer({a}.reshape(-1)[:3], {b}.reshape(-1)[:4])
F.one_hot({at} % 7, 7)
F.cosine_similarity({a}, {b}, dim={d})
"""
CASTS = """
{a}.to({to})
{a}.to({to})
{a}.float()
{a}.long()
{a}.bool()
{a}.half()
{a}.to(torch.bfloat16)
{a}.int()
{a}.to(torch.uint8)
{a}.type_as({b})
"""
UPDATES = """
t = {a}.clone(); t.add_({b}); R = t
t = {a}.clone(); t.mul_({s}); R = t + {a}
t = {a} * 1; t[0] = 1; R = t
t = {a} * 1; t[..., 0].add_(1); R = t
t = {a} + 0; t.view(-1)[0:2].mul_(2); R = t * 1
t = {a}.clone(); t.copy_({b}); R = t
t = {a}.clone(); t.clamp_(0, 1); R = t
t = {a}.clone(); t.transpose({d}, {e}).add_({b}); R = t
t = {a}.clone(); t[{at}] = 0; R = t
t = {a}.clone(); t.index_put_(({at},), {a}[{at}], accumulate=True); R = t
t = {a}.clone(); t.fill_({s}); R = t
t = {a}.clone(); F.relu_(t); R = t
t = {a}.clone(); t.masked_fill_({m}, {s}); R = t
t = {a}.clone(); t[1:] = t[:-1].clone(); R = t
"""
STATE = """
self.state.add_({a}.sum().to(self.state.dtype)); R = self.state * 1
self.state.copy_(self.state + 1); R = {a} + self.state
self.state.mul_(0.5); self.state.add_(1); R = self.state + 0
"""
CONDITIONS = """
R = cond({test}, lambda x: x.sin() + 1, lambda x: x.cos() * 2, ({a},))
R = cond({test}, lambda x, y: (x + y) * 2, lambda x, y: x * y + 1, ({a}, {b}))
"""


def lines(text: str) -> list[str]:
    """Return the lines of a group."""
    return text.strip().splitlines()


GROUPS: list[tuple[list[str], float]] = [
    *((lines(UNARY), 16), (lines(BINARY), 22), (lines(SCALAR), 12), (lines(REDUCTIONS), 14)),
    *((lines(MOVES), 24), (lines(LAYERS), 14), (lines(CASTS), 6), (lines(UPDATES), 7)),
    (lines(CONDITIONS), 0.7),
]
"""Groups of lines, with their weights."""
STATEFUL = lines(STATE)
