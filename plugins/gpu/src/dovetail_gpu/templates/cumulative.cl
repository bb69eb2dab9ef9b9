// y[o, k, i] = the sum of x[o, 0..k, i]: one work item for each o and i. `first` and `step` are the
// index along the axis at which it starts, and the direction.

__kernel void cumulative_sum(TENSOR_IN(S, x), TENSOR_OUT(S, y), int outer, int size, int inner,
                             int first, int step, int is_exclusive) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int item = get_global_id(0);
  if (item >= outer * inner) return;
  int at = (item / inner * size + first) * inner + item % inner;
  ACCUMULATOR sum = 0;
  for (int k = 0; k < size; k++, at += step * inner) {
    const ACCUMULATOR value = LOAD(x + at);
    STORE(is_exclusive ? sum : sum + value, y + at);
    sum += value;
  }
}
