// x + sin(alpha * x)^2 / alpha for each element; x where alpha is 0. The number of an element's alpha
// is that of the axes along which alpha varies: `inner` elements in a row share one of `channels`.
__kernel void snake(TENSOR_IN(S, x), TENSOR_IN(float, alpha), TENSOR_OUT(S, y), int count, int inner,
                    int channels) {
  TENSOR_READ(S, x);
  TENSOR_READ(float, alpha);
  TENSOR_WRITE(S, y);
  const int i = get_global_id(0);
  if (i >= count) return;
  const float v = LOAD(x + i);
  const float a = alpha[i / inner % channels];
  const float s = sin(a * v);
  STORE(a == 0.0f ? v : v + s * s / a, y + i);
}
