"""The operators of OpInfo that programs use most, chosen by hand."""

# Compared in more types than float32.
USED = """
abs add addbmm addcdiv addcmul addmm addmv all allclose amax amin aminmax any arange argmax argmin
argsort as_strided atan2 baddbmm bernoulli bitwise_and bitwise_not bitwise_or bitwise_xor block_diag
bmm broadcast_to bucketize cat cdist ceil chunk clamp clamp_max clamp_min clone constant_pad_nd
contiguous cos count_nonzero cross cumprod cummax cummin cumsum diag diag_embed diagonal diff dist
div einsum empty empty_like eq equal erf exp expand expand_as expm1 eye fill flatten flip floor
floor_divide fmod full full_like gather ge gt heaviside index_add index_copy index_fill index_put
index_select isclose isfinite isin isinf isnan item le lerp linspace log log1p log2 log_softmax
logaddexp logical_and logical_not logical_or logical_xor logsumexp lt masked_fill masked_scatter
masked_select matmul max maximum mean median meshgrid min minimum mm movedim mul multinomial mv
nan_to_num narrow ne neg nonzero norm ones ones_like outer permute pow prod put quantile reciprocal
remainder repeat repeat_interleave reshape resize_ roll round rsqrt rsub scatter scatter_add
scatter_reduce searchsorted select sigmoid sign sin softmax sort split split_with_sizes sqrt square
squeeze stack std std_mean sub sum t take take_along_dim tan tanh tensordot tile topk trace
transpose tril triu true_divide trunc unbind unfold unique unique_consecutive unsqueeze var
var_mean view view_as vstack where xlogy zero_ zeros zeros_like
nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm
nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose2d
nn.functional.cross_entropy nn.functional.dropout nn.functional.elu nn.functional.embedding
nn.functional.gelu nn.functional.glu nn.functional.group_norm nn.functional.hardswish
nn.functional.interpolate nn.functional.l1_loss nn.functional.layer_norm
nn.functional.leaky_relu nn.functional.linear nn.functional.max_pool2d nn.functional.mse_loss
nn.functional.nll_loss nn.functional.normalize nn.functional.one_hot nn.functional.pad
nn.functional.relu nn.functional.scaled_dot_product_attention nn.functional.silu
nn.functional.smooth_l1_loss nn.functional.softplus nn.functional.binary_cross_entropy_with_logits
""".split()  # noqa: SIM905 a line for each name would be longer
# With the former, the 300 most used, of which the page has the share that is computed.
ALSO_USED = """
H T mT ravel reshape_as hstack column_stack dstack atleast_1d atleast_2d broadcast_tensors dot inner
kron acos asin atan sinh cosh exp2 log10 erfc erfinv lgamma float_power frac copysign logit sgn
nansum nanmean kthvalue mode histc logcumsumexp new_zeros new_ones new_full new_empty rand_like
randn randn_like randint uniform normal float half bfloat16 double long bool to fft.fft fft.rfft
fft.irfft stft linalg.norm linalg.vector_norm linalg.inv linalg.solve linalg.svd linalg.cholesky
nn.functional.adaptive_avg_pool1d nn.functional.max_pool1d nn.functional.conv3d
nn.functional.huber_loss nn.functional.kl_div nn.functional.binary_cross_entropy
nn.functional.cosine_similarity nn.functional.ctc_loss nn.functional.embedding_bag
nn.functional.grid_sample nn.functional.hardtanh nn.functional.instance_norm
nn.functional.logsigmoid nn.functional.multi_head_attention_forward nn.functional.pixel_shuffle
nn.functional.prelu nn.functional.rms_norm nn.functional.unfold
""".split()  # noqa: SIM905
