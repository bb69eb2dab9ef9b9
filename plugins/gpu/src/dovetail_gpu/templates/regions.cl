// Regions of feature maps, and peaks of heat maps. Arithmetic is in float.

static float weighed(float sum, float weight, float v) {
  return weight == 0.0f ? sum : sum + weight * v;  // 0 times an infinity would be NaN
}

// RoiAlign: a work item for each bin. `sampling` is the number of samples along each axis, 0 or less
// for the size of the bin rounded up; MOST bounds it.
#define MOST 65536.0f
#define ALIGNED 1

// The samples that count: from `low` to the one before `high`. Their number is bounded by the map.
static int2 inside(float start, float step, int count, int length) {
  const float low = floor((-1.0f - start) / step) - 1.0f, high = ceil((length - start) / step) + 2.0f;
  if (!(low < count) || !(high > 0.0f)) return (int2)(0, 0);
  return (int2)((int)max(low, 0.0f), (int)min(high, (float)count));
}

__kernel void align(TENSOR_IN(S, x), TENSOR_IN(S, rois), TENSOR_IN(int, images), TENSOR_OUT(S, y),
                    int bins, int all_images, int height, int width, int channels, int rows,
                    int columns, int samples_y, int samples_x, int flags, float ratio_y,
                    float ratio_x) {
  TENSOR_READ(S, x);
  TENSOR_READ(S, rois);
  TENSOR_READ(int, images);
  TENSOR_WRITE(S, y);
  const int bin = get_global_id(0);
  if (bin >= bins) return;
  const int roi = bin / (rows * columns), row = bin / columns % rows, column = bin % columns;
  rois += roi * 4;
  const float x1 = LOAD(rois), y1 = LOAD(rois + 1), x2 = LOAD(rois + 2), y2 = LOAD(rois + 3);
  const float left = x1 / ratio_x, top = y1 / ratio_y;
  float high = y2 / ratio_y - top, wide = x2 / ratio_x - left;
  float start_y = top, start_x = left;
  if (flags & ALIGNED) {
    start_y -= 0.5f;
    start_x -= 0.5f;
  } else {
    high = max(high, 1.0f);
    wide = max(wide, 1.0f);
  }
  const float step_y = high / rows, step_x = wide / columns;
  const float wanted_y = samples_y > 0 ? samples_y : ceil(step_y);
  const float wanted_x = samples_x > 0 ? samples_x : ceil(step_x);
  const int count_y = wanted_y > 0.0f ? (int)min(wanted_y, MOST) : 0;
  const int count_x = wanted_x > 0.0f ? (int)min(wanted_x, MOST) : 0;
  const bool is_nan = x1 != x1 || y1 != y1 || x2 != x2 || y2 != y2;
  const int size = height * width * channels;
  __global const S *image = x + (long)clamp(images[roi], 0, all_images - 1) * size;
  start_y += step_y * row;
  start_x += step_x * column;
  const float between_y = step_y / max(count_y, 1), between_x = step_x / max(count_x, 1);
  int2 over_y = (int2)(0, count_y), over_x = (int2)(0, count_x);
  if (between_y > 0.0f) over_y = inside(start_y, between_y, count_y, height);
  if (between_x > 0.0f) over_x = inside(start_x, between_x, count_x, width);
  const float share = 1.0f / ((float)max(count_y, 1) * (float)max(count_x, 1));
  for (int c = 0; c < channels; c++) {
    float sum = is_nan ? NAN : 0.0f;
    for (int i = over_y.x; i < over_y.y; i++) {
      float v = start_y + (i + 0.5f) * between_y;
      if (!(v >= -1.0f && v <= height)) continue;
      v = clamp(v, 0.0f, height - 1.0f);
      const int upper = (int)v, lower = min(upper + 1, height - 1);
      for (int j = over_x.x; j < over_x.y; j++) {
        float h = start_x + (j + 0.5f) * between_x;
        if (!(h >= -1.0f && h <= width)) continue;
        h = clamp(h, 0.0f, width - 1.0f);
        const int near = (int)h, far = min(near + 1, width - 1);
        const float down = v - upper, right = h - near;
        __global const S *above = image + upper * width * channels + c;
        __global const S *below = image + lower * width * channels + c;
        sum = weighed(sum, (1.0f - down) * (1.0f - right) * share, LOAD(above + near * channels));
        sum = weighed(sum, (1.0f - down) * right * share, LOAD(above + far * channels));
        sum = weighed(sum, down * (1.0f - right) * share, LOAD(below + near * channels));
        sum = weighed(sum, down * right * share, LOAD(below + far * channels));
      }
    }
    STORE(sum, y + (long)bin * channels + c);
  }
}

// HeatMapMaxKeyPoint: a work item for each point.
#define FLAT 1e-5f
#define REACH 1.5f

static float larger(float a, float b) { return a >= b || a != a ? a : b; }

static int mirrored(int i, int size) { return i < 0 ? -i : i < size ? i : 2 * (size - 1) - i; }

__kernel void peaks(TENSOR_IN(S, maps), TENSOR_IN(S, boxes), TENSOR_OUT(S, values),
                    TENSOR_OUT(S, points), int count, int height, int width, int channels) {
  TENSOR_READ(S, maps);
  TENSOR_READ(S, boxes);
  TENSOR_WRITE(S, values);
  TENSOR_WRITE(S, points);
  const int point = get_global_id(0);
  if (point >= count) return;
  const int image = point / channels;
  __global const S *map = maps + (long)image * height * width * channels + point % channels;
  int best = 0;
  float most = LOAD(map);
  for (int i = 1; i < height * width && most == most; i++) {  // the first NaN is the largest
    const float v = LOAD(map + (long)i * channels);
    if (v > most || v != v) {
      most = v;
      best = i;
    }
  }
  const int row = best / width, column = best % width;
  float g[3][3];
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      const int y = mirrored(row + i - 1, height);
      const int x = mirrored(column + j - 1, width);
      g[i][j] = LOAD(map + (long)(y * width + x) * channels);
    }
  }
  const float slope_x = (g[1][2] - g[1][0]) / 2, slope_y = (g[2][1] - g[0][1]) / 2;
  const float bend_x = g[1][0] - 2 * g[1][1] + g[1][2], bend_y = g[0][1] - 2 * g[1][1] + g[2][1];
  const float twist = (g[2][2] - g[2][0] - g[0][2] + g[0][0]) / 4;
  const float product = bend_x * bend_y, determinant = product - twist * twist;
  const bool flat = fabs(determinant) < FLAT + FLAT * product;  // not where it is NaN
  float x = flat ? 0.0f : (twist * slope_y - bend_y * slope_x) / determinant;
  float y = flat ? 0.0f : (twist * slope_x - bend_x * slope_y) / determinant;
  const float scale = REACH / larger(larger(fabs(x), fabs(y)), REACH);
  x *= scale;
  y *= scale;
  const float bent = (bend_x * x * x + bend_y * y * y) / 2 + twist * x * y;
  STORE(g[1][1] + slope_x * x + slope_y * y + bent, values + point);
  boxes += image * 4;
  const float x1 = LOAD(boxes), y1 = LOAD(boxes + 1);
  const float share_x = (column + x + 0.5f) / width, share_y = (row + y + 0.5f) / height;
  STORE(x1 + share_x * (LOAD(boxes + 2) - x1), points + 2 * point);
  STORE(y1 + share_y * (LOAD(boxes + 3) - y1), points + 2 * point + 1);
}
