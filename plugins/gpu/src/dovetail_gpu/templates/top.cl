// The k largest keys of each row of n elements, in order, by a heap of k keys with the smallest at
// its root. A key is a number that grows with the element, above its index: of equal elements the
// one with the larger index comes first.

ulong key_of(X_KEY e, uint index) {
#if X_IS_FLOAT
  const uint bits = e == 0.0f ? 0u : as_uint(e);
  uint rank = (bits >> 31) ? ~bits : bits | 0x80000000u;
  if (e != e) rank = 0xffffffffu;  // NaN is larger than all numbers
#else
  uint rank = (uint)e ^ SIGN_BIT;
#endif
#if SMALLEST
  rank = ~rank;
#endif
  return ((ulong)rank << 32) | index;
}

void sink(__global ulong *heap, int k, int i) {
  const ulong key = heap[i];
  for (;;) {
    int child = 2 * i + 1;
    if (child >= k) break;
    if (child + 1 < k && heap[child + 1] < heap[child]) child++;
    if (key <= heap[child]) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = key;
}

__kernel void top(TENSOR_IN(X, x), TENSOR_OUT(X, y), TENSOR_OUT(int, indices),
                  TENSOR_OUT(ulong, heaps), int rows, int n, int k) {
  TENSOR_READ(X, x);
  TENSOR_WRITE(X, y);
  TENSOR_WRITE(int, indices);
  TENSOR_WRITE(ulong, heaps);
  const int row = get_global_id(0);
  if (row >= rows) return;
  __global ulong *heap = heaps + (long)row * k;
  __global const X *p = x + row * n;
  for (int i = 0; i < k; i++) heap[i] = key_of(LOAD_X(p + i), i);
  for (int i = k / 2 - 1; i >= 0; i--) sink(heap, k, i);
  for (int i = k; i < n; i++) {
    const ulong key = key_of(LOAD_X(p + i), i);
    if (key <= heap[0]) continue;
    heap[0] = key;
    sink(heap, k, 0);
  }
  for (int left = k - 1; left >= 0; left--) {  // the smallest one goes to the end
    const int index = (int)(heap[0] & 0xffffffffu);
    indices[row * k + left] = index;
    STORE_X(LOAD_X(p + index), y + row * k + left);
    heap[0] = heap[left];
    sink(heap, left, 0);
  }
}
