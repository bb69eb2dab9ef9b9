// Regions of interest and peaks of heat maps.

// Weights of a sample at a position of an axis of `length` elements, which is nowhere if farther out
// than one element.
#define SAMPLE_AXIS(position, length, low, high, share, counts) \
  { \
    const float at = (position); \
    counts = at >= -1.0f && at <= (float)(length); \
    const float inside = clamp(at, 0.0f, (float)((length) - 1)); \
    low = counts ? (int)floor(inside) : 0; \
    high = min(low + 1, (length) - 1); \
    share = inside - low; \
  }

#define ROI_SUM(V, LOAD_V, STORE_V, c) \
  { \
    V v = (V)(0.0f); \
    for (int a = 0; a < count_y; a++) { \
      int top, bottom, in_y; \
      float share_y; \
      SAMPLE_AXIS(start_y + bin_y * (i + (a + 0.5f) / count_y), height, top, bottom, share_y, in_y) \
      for (int b = 0; b < count_x && in_y; b++) { \
        int left, right, in_x; \
        float share_x; \
        SAMPLE_AXIS(start_x + bin_x * (j + (b + 0.5f) / count_x), width, left, right, share_x, \
                    in_x) \
        if (!in_x) continue; \
        const V upper = LOAD_V(image + (top * width + left) * channels + (c)) * (1.0f - share_x) + \
                        LOAD_V(image + (top * width + right) * channels + (c)) * share_x; \
        const V lower = LOAD_V(image + (bottom * width + left) * channels + (c)) * (1.0f - share_x) + \
                       LOAD_V(image + (bottom * width + right) * channels + (c)) * share_x; \
        v += upper * (1.0f - share_y) + lower * share_y; \
      } \
    } \
    v = is_wrong ? (V)(NAN) : v / (V)(max(count_y, 1) * (float)max(count_x, 1)); \
    STORE_V(v, y + (row * out_width + j) * channels + (c)); \
  }

// A region without an image, with NaN or (unless allows_invalid) with corners in the wrong order has
// NaN as its results, and so has one of which a bin has more than `most` samples along an axis.
__kernel void roi_align(TENSOR_IN(S, x), TENSOR_IN(float, regions), TENSOR_IN(int, images),
                        TENSOR_OUT(S, y), int rows, int batch, int height, int width, int channels,
                        int out_height, int out_width, int samples_y, int samples_x, int aligned,
                        int allows_invalid, int most, float ratio_y, float ratio_x) {
  TENSOR_READ(S, x);
  TENSOR_READ(float, regions);
  TENSOR_READ(int, images);
  TENSOR_WRITE(S, y);
  const int first = get_global_id(0) * 8, j = get_global_id(1), row = get_global_id(2);
  if (first >= channels || j >= out_width || row >= rows) return;
  const int region = row / out_height, i = row - region * out_height, owner = images[region];
  __global const float *corner = regions + region * 4;
  const float low_x = corner[0] / ratio_x, low_y = corner[1] / ratio_y;
  const float high_x = corner[2] / ratio_x, high_y = corner[3] / ratio_y;
  float size_x = high_x - low_x, size_y = high_y - low_y;
  const int has_nan = corner[0] != corner[0] || corner[1] != corner[1] ||
                      corner[2] != corner[2] || corner[3] != corner[3];
  const int is_reversed = corner[2] < corner[0] || corner[3] < corner[1];
  if (!aligned) size_x = fmax(size_x, 1.0f), size_y = fmax(size_y, 1.0f);
  const float start_x = aligned ? low_x - 0.5f : low_x, start_y = aligned ? low_y - 0.5f : low_y;
  const float bin_x = size_x / out_width, bin_y = size_y / out_height;
  const float wanted_x = samples_x > 0 ? samples_x : ceil(bin_x);
  const float wanted_y = samples_y > 0 ? samples_y : ceil(bin_y);
  const int is_wrong = has_nan || owner < 0 || owner >= batch || wanted_x > most ||
                       wanted_y > most || (is_reversed && !allows_invalid);
  const int is_none = is_wrong || !(wanted_x > 0.0f) || !(wanted_y > 0.0f) || height * width == 0;
  const int count_x = is_none ? 0 : (int)wanted_x, count_y = is_none ? 0 : (int)wanted_y;
  __global const S *image = x + (is_wrong ? 0 : owner) * height * width * channels;
  if (first + 8 <= channels) {
    ROI_SUM(float8, LOAD8, STORE8, first)
    return;
  }
  for (int c = first; c < channels; c++) ROI_SUM(float, LOAD, STORE, c)
}

#define MIRRORED(i, n) ((n) - 1 - (int)abs((n) - 1 - (int)abs(i)))
#define MAP(dy, dx) \
  LOAD(map + (MIRRORED(peak_y + (dy), height) * width + MIRRORED(peak_x + (dx), width)) * points)

// The peak of the quadratic through the largest element of a heat map and its neighbors.
__kernel void peaks(TENSOR_IN(S, maps), TENSOR_IN(S, boxes), TENSOR_OUT(S, scores),
                    TENSOR_OUT(S, positions), int count, int height, int width, int points) {
  TENSOR_READ(S, maps);
  TENSOR_READ(S, boxes);
  TENSOR_WRITE(S, scores);
  TENSOR_WRITE(S, positions);
  const int at = get_global_id(0);
  if (at >= count) return;
  const int image = at / points;
  __global const S *map = maps + image * height * width * points + at % points;
  float best = LOAD(map);
  int found = 0;
  for (int i = 1; i < height * width; i++) {
    const float e = LOAD(map + i * points);
    if (e > best || (e != e && best == best)) best = e, found = i;
  }
  const int peak_y = found / width, peak_x = found % width;
  const float center = MAP(0, 0);
  const float slope_x = (MAP(0, 1) - MAP(0, -1)) / 2.0f, slope_y = (MAP(1, 0) - MAP(-1, 0)) / 2.0f;
  const float bend_x = MAP(0, -1) - 2.0f * center + MAP(0, 1);
  const float bend_y = MAP(-1, 0) - 2.0f * center + MAP(1, 0);
  const float twist = (MAP(1, 1) - MAP(1, -1) - MAP(-1, 1) + MAP(-1, -1)) / 4.0f;
  const float product = bend_x * bend_y, determinant = product - twist * twist;
  float dx = 0.0f, dy = 0.0f;
  if (!(fabs(determinant) < 1e-5f + 1e-5f * product)) {
    dx = (twist * slope_y - bend_y * slope_x) / determinant;
    dy = (twist * slope_x - bend_x * slope_y) / determinant;
  }
  const float farthest = fmax(fmax(fabs(dx), fabs(dy)), 1.5f);
  const float scale = dx != dx || dy != dy ? NAN : 1.5f / farthest;
  dx *= scale, dy *= scale;
  const float value = center + slope_x * dx + slope_y * dy +
                      ((bend_x * dx * dx + bend_y * dy * dy) / 2.0f + twist * dx * dy);
  STORE(value, scores + at);
  __global const S *box = boxes + image * 4;
  const float x = LOAD(box) + (peak_x + dx + 0.5f) / width * (LOAD(box + 2) - LOAD(box));
  const float y = LOAD(box + 1) + (peak_y + dy + 0.5f) / height * (LOAD(box + 3) - LOAD(box + 1));
  STORE(x, positions + at * 2);
  STORE(y, positions + at * 2 + 1);
}
