// An Lstm: one work group for each element of the batch computes all steps. With two directions,
// those of the second follow, as do its weights; their results are one next to the other. x are the
// products of all x with their weights, or x themselves, WITH_INPUTS. Gates are in the order input
// (unless coupled), forget, output, cell. Weights are in blocks of eight units: sums, bias,
// peepholes and norms (block, gate, 8), those of x and h (block, element, gate, 8), the projection
// (block, unit, 8). States are padded to whole blocks.

#define EARLY (GATES - 2)  // the gates that read the cell before the step, then the output gate
#define CELL (GATES - 1)
#define FORGET (EARLY - 1)
#define SIGMOID(v) (1.0f / (1.0f + exp(-(v))))
#define CLIP(V, v, limit) \
  if (limit > 0.0f) { \
    v = select(v, (V)(limit), v > (V)(limit)); \
    v = select(v, (V)(-limit), v < (V)(-limit)); \
  }
#define BLOCK(p) (*(__global packed_float8 *)(p))
#if GATES == 4
#define WIDE 16
#else
#define WIDE 8
#endif
#define PARTS (GATES * 8 / WIDE)
typedef VECTOR(float, WIDE) __attribute__((aligned(4))) packed_wide;
// Elements of a vector that are multiplied apart: a core begins more additions than those of one
// element before the first of them ends.
#if GROUP == 1
#define APART 4
#else
#define APART 2
#endif
// Add the products of a vector to the sums v of all gates of block b.
#define ADD_PRODUCTS(vector, matrix, count) \
  { \
    __global const packed_wide *weights = \
        (__global const packed_wide *)(matrix + (long)b * (count) * GATES * 8); \
    VECTOR(float, WIDE) partial[APART][PARTS]; \
    _Pragma("unroll") for (int i = 0; i < APART; i++) \
      _Pragma("unroll") for (int p = 0; p < PARTS; p++) partial[i][p] = 0.0f; \
    int k = 0; \
    for (; k + APART <= count; k += APART, weights += APART * PARTS) \
      _Pragma("unroll") for (int i = 0; i < APART; i++) \
        _Pragma("unroll") for (int p = 0; p < PARTS; p++) \
          partial[i][p] += (vector)[k + i] * weights[i * PARTS + p]; \
    for (; k < count; k++, weights += PARTS) \
      _Pragma("unroll") for (int p = 0; p < PARTS; p++) \
        partial[0][p] += (vector)[k] * weights[p]; \
    _Pragma("unroll") for (int i = 0; i < APART; i++) \
      _Pragma("unroll") for (int g = 0; g < GATES; g++) v[g] += ((const float8 *)partial[i])[g]; \
  }
#define AT(u, gate) (((u) / 8 * GATES + (gate)) * 8 + (u) % 8)
#if GROUP == 1
#define SYNC
#else
#define SYNC barrier(CLK_GLOBAL_MEM_FENCE);
#endif

// Mean and deviation of a gate's sums.
#define STATISTICS(gate, mean, deviation) \
  { \
    float total = 0.0f; \
    for (int u = LANE; u < units; u += GROUP) total += sums[AT(u, gate)]; \
    JOIN(float, total, shared, ADD) \
    mean = total / units; \
    total = 0.0f; \
    for (int u = LANE; u < units; u += GROUP) { \
      const float e = sums[AT(u, gate)] - mean; \
      total += e * e; \
    } \
    JOIN(float, total, shared, ADD) \
    deviation = sqrt(total / units + 1e-8f); \
  }
#define SETTLED(u, gate, mean, deviation) \
  ((sums[AT(u, gate)] - mean) / deviation * norms[AT(u, gate)] + bias[AT(u, gate)])

#define KEEP_GATES(u, i, f, g, o) \
  if (WITH_GATES && step == steps - 1) { \
    const int at = batch * units + (u); \
    STORE(i, input_gate + at); \
    STORE(f, forget_gate + at); \
    STORE(g, cell_gate + at); \
    STORE(o, output_gate + at); \
  }

__kernel void lstm(TENSOR_IN(float, x), TENSOR_IN(float, inputs), TENSOR_IN(float, recurrent),
                   TENSOR_IN(float, bias), TENSOR_IN(float, norms), TENSOR_IN(float, peepholes),
                   TENSOR_IN(float, projection), TENSOR_IN(float, projection_bias),
                   TENSOR_IN(S, first_h), TENSOR_IN(S, first_c), TENSOR_OUT(float, states),
                   TENSOR_OUT(S, y), TENSOR_OUT(S, last_c), TENSOR_OUT(S, last_h),
                   TENSOR_OUT(S, input_gate), TENSOR_OUT(S, forget_gate),
                   TENSOR_OUT(S, cell_gate), TENSOR_OUT(S, output_gate), TENSOR_OUT(S, state),
                   int steps, int batches, int units, int size, int depth, int starts_h,
                   int starts_c, int reverse, int step_pitch, int batch_pitch, int pitch,
                   float cell_clip, float output_clip) {
  TENSOR_READ(float, x);
  TENSOR_READ(float, inputs);
  TENSOR_READ(float, recurrent);
  TENSOR_READ(float, bias);
  TENSOR_READ(float, norms);
  TENSOR_READ(float, peepholes);
  TENSOR_READ(float, projection);
  TENSOR_READ(float, projection_bias);
  TENSOR_READ(S, first_h);
  TENSOR_READ(S, first_c);
  TENSOR_WRITE(S, y);
  TENSOR_WRITE(S, last_c);
  TENSOR_WRITE(S, last_h);
  TENSOR_WRITE(S, input_gate);
  TENSOR_WRITE(S, forget_gate);
  TENSOR_WRITE(S, cell_gate);
  TENSOR_WRITE(S, output_gate);
  TENSOR_WRITE(S, state);
  SHARED(float, shared);
  const int direction = ROW / batches, batch = ROW % batches;
  const int blocks = (units + 7) / 8, out_blocks = (size + 7) / 8;
  inputs += (long)direction * blocks * depth * GATES * 8;
  recurrent += (long)direction * blocks * size * GATES * 8;
  bias += direction * blocks * GATES * 8;
  // of a batch element: c, the unprojected h, the sums, and h before and after a step
  __global float *c = states_memory + states_first +
                      (long)ROW * (8 * blocks * (2 + GATES) + 16 * out_blocks);
  __global float *hidden = c + 8 * blocks, *sums = hidden + 8 * blocks;
  __global float *h = sums + 8 * blocks * GATES, *next = h + 8 * out_blocks;
  for (int u = LANE; u < 8 * blocks; u += GROUP)
    c[u] = starts_c && u < units ? LOAD(first_c + batch * units + u) : 0.0f;
  for (int u = LANE; u < 8 * out_blocks; u += GROUP)
    h[u] = starts_h && u < size ? LOAD(first_h + batch * size + u) : 0.0f;
  SYNC
  for (int step = 0; step < steps; step++) {
    const int at = reverse >> direction & 1 ? steps - 1 - step : step;
    const int row = at * step_pitch + batch * batch_pitch;
    for (int b = LANE; b < blocks; b += GROUP) {
      float8 v[GATES];
#if WITH_INPUTS
      for (int g = 0; g < GATES; g++) v[g] = 0.0f;
      ADD_PRODUCTS(x + row * depth, inputs, depth)
#else
#pragma unroll
      for (int g = 0; g < GATES; g++)
        v[g] = *(__global const packed_float8 *)(x + ((row * blocks + b) * GATES + g) * 8);
#endif
      ADD_PRODUCTS(h, recurrent, size)
#if WITH_NORMS
      for (int g = 0; g < GATES; g++) BLOCK(sums + (b * GATES + g) * 8) = v[g];
#else
      float8 cell = BLOCK(c + b * 8);
#pragma unroll
      for (int g = 0; g < GATES; g++) {
        v[g] += *(__global const packed_float8 *)(bias + (b * GATES + g) * 8);
        if (WITH_PEEPHOLES && g < EARLY)
          v[g] += cell * *(__global const packed_float8 *)(peepholes + (b * GATES + g) * 8);
      }
      const float8 f = SIGMOID(v[FORGET]), i = EARLY == 2 ? SIGMOID(v[0]) : 1.0f - f;
      const float8 fresh = tanh_float8(v[CELL]);
      cell = f * cell + i * fresh;
      CLIP(float8, cell, cell_clip)
      if (WITH_PEEPHOLES)
        v[EARLY] += cell * *(__global const packed_float8 *)(peepholes + (b * GATES + EARLY) * 8);
      const float8 o = SIGMOID(v[EARLY]);
      BLOCK(c + b * 8) = cell;
      BLOCK(hidden + b * 8) = o * tanh_float8(cell);
#if WITH_GATES
      const float8 kept[4] = {i, f, fresh, o};
      for (int u = b * 8; u < min(b * 8 + 8, units); u++)
        KEEP_GATES(u, ((const float *)kept)[u - b * 8], ((const float *)kept)[8 + u - b * 8],
                   ((const float *)kept)[16 + u - b * 8], ((const float *)kept)[24 + u - b * 8])
#endif
#endif
    }
    SYNC
#if WITH_NORMS
    if (WITH_PEEPHOLES) {
      for (int u = LANE; u < units; u += GROUP)
        for (int g = 0; g < EARLY; g++) sums[AT(u, g)] += c[u] * peepholes[AT(u, g)];
      SYNC
    }
    float mean_i = 0.0f, mean_f, mean_g, mean_o, scale_i = 1.0f, scale_f, scale_g, scale_o;
    if (EARLY == 2) STATISTICS(0, mean_i, scale_i)
    STATISTICS(FORGET, mean_f, scale_f)
    STATISTICS(CELL, mean_g, scale_g)
    for (int u = LANE; u < units; u += GROUP) {
      const float f = SIGMOID(SETTLED(u, FORGET, mean_f, scale_f));
      const float i = EARLY == 2 ? SIGMOID(SETTLED(u, 0, mean_i, scale_i)) : 1.0f - f;
      const float fresh = tanh_float(SETTLED(u, CELL, mean_g, scale_g));
      float cell = f * c[u] + i * fresh;
      CLIP(float, cell, cell_clip)
      c[u] = cell;
      if (WITH_PEEPHOLES) sums[AT(u, EARLY)] += cell * peepholes[AT(u, EARLY)];
      KEEP_GATES(u, i, f, fresh, 0.0f)
    }
    SYNC
    STATISTICS(EARLY, mean_o, scale_o)
    for (int u = LANE; u < units; u += GROUP) {
      const float o = SIGMOID(SETTLED(u, EARLY, mean_o, scale_o));
      hidden[u] = o * tanh_float(c[u]);
      if (WITH_GATES && step == steps - 1) STORE(o, output_gate + batch * units + u);
    }
    SYNC
#endif
    for (int b = LANE; b < out_blocks; b += GROUP) {
#if WITH_PROJECTION
      float8 v = *(__global const packed_float8 *)(projection_bias + b * 8);
      for (int u = 0; u < units; u++)
        v += hidden[u] *
             *(__global const packed_float8 *)(projection + ((long)b * units + u) * 8);
      CLIP(float8, v, output_clip)
#else
      const float8 v = BLOCK(hidden + b * 8);
#endif
      BLOCK(next + b * 8) = v;
      for (int u = b * 8; u < min(b * 8 + 8, size); u++)
        STORE(next[u], y + (long)row * pitch + direction * size + u);
    }
    SYNC
    __global float *old = h;
    h = next;
    next = old;
  }
  for (int u = LANE; u < units; u += GROUP) {
    STORE(c[u], last_c + ROW * units + u);
    if (steps == 0) {  // no last step
      const int step = -1;
      KEEP_GATES(u, 0.0f, 0.0f, 0.0f, 0.0f)
    }
  }
  for (int u = LANE; u < size; u += GROUP) {
    STORE(h[u], last_h + ROW * size + u);
    if (WITH_GATES) STORE(steps == 0 ? 0.0f : h[u], state + batch * size + u);
  }
}
