// DetectionOutput: boxes decoded from anchors, the best kept within each class (REGULAR) or of each
// anchor (FAST), and the best of all. One work item sorts and suppresses for a class of an image.

// A key is a number that grows with the score, NaN the largest, above one that falls with the index:
// of equal scores the lower index comes first.
ulong key_of(float score, int index) {
  const uint bits = score == 0.0f ? 0u : as_uint(score);
  const uint rank = score != score ? 0xffffffffu : (bits >> 31) ? ~bits : bits | 0x80000000u;
  return ((ulong)rank << 32) | (uint)~index;
}

#define INDEX(key) ((int)~(uint)((key) & 0xffffffffu))

// Moves a key of a heap, the smallest of which is at the root, to where it belongs.
void sink(__global ulong *heap, int count, int i) {
  const ulong key = heap[i];
  for (;;) {
    int child = 2 * i + 1;
    if (child >= count) break;
    if (child + 1 < count && heap[child + 1] < heap[child]) child++;
    if (key <= heap[child]) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = key;
}

// Sorts keys, the largest first.
void sort(__global ulong *keys, int count) {
  for (int i = count / 2 - 1; i >= 0; i--) sink(keys, count, i);
  for (int left = count - 1; left > 0; left--) {
    const ulong key = keys[0];
    keys[0] = keys[left];
    keys[left] = key;
    sink(keys, left, 0);
  }
}

__kernel void decode(TENSOR_IN(S, deltas), TENSOR_IN(S, anchors), TENSOR_OUT(float, corners),
                     int count, int each, float scale_y, float scale_x, float scale_h,
                     float scale_w) {
  TENSOR_READ(S, deltas);
  TENSOR_READ(S, anchors);
  TENSOR_WRITE(float, corners);
  const int i = get_global_id(0);
  if (i >= count) return;
  __global const S *delta = deltas + i * 4, *anchor = anchors + i / each * 4;
  const float height = LOAD(anchor + 2), width = LOAD(anchor + 3);
  const float y = LOAD(anchor) + LOAD(delta) / scale_y * height;
  const float x = LOAD(anchor + 1) + LOAD(delta + 1) / scale_x * width;
  const float half_y = height * exp(LOAD(delta + 2) / scale_h) / 2.0f;
  const float half_x = width * exp(LOAD(delta + 3) / scale_w) / 2.0f;
  corners[i * 4] = y - half_y, corners[i * 4 + 1] = x - half_x;
  corners[i * 4 + 2] = y + half_y, corners[i * 4 + 3] = x + half_x;
}

#define LOWER(a, b) ((a) < (b) ? (a) : (b))
#define UPPER(a, b) ((a) > (b) ? (a) : (b))

// The part of a box on an axis, of either order of corners.
#define RANGE(box, axis, low, high) \
  const float low = LOWER(box[axis], box[2 + axis]), high = UPPER(box[axis], box[2 + axis]);

// The intersection of two boxes over their union; 0 without area, or where a corner is NaN.
float overlap(__global const float *a, __global const float *b) {
  const float sum = a[0] + a[1] + a[2] + a[3] + b[0] + b[1] + b[2] + b[3];
  if (sum != sum) return 0.0f;
  RANGE(a, 0, top_a, bottom_a)
  RANGE(a, 1, left_a, right_a)
  RANGE(b, 0, top_b, bottom_b)
  RANGE(b, 1, left_b, right_b)
  const float height = LOWER(bottom_a, bottom_b) - UPPER(top_a, top_b);
  const float width = LOWER(right_a, right_b) - UPPER(left_a, left_b);
  if (!(height > 0.0f && width > 0.0f)) return 0.0f;
  const float shared = height * width;
  const float total = (bottom_a - top_a) * (right_a - left_a) +
                      (bottom_b - top_b) * (right_b - left_b) - shared;
  return total > 0.0f ? shared / total : 0.0f;
}

// The best score of an anchor, NaN if one is.
float best_of(__global const S *scores, int classes, int background, int uses_background) {
  float best = -INFINITY;
  for (int c = 0; c < classes; c++) {
    if (c == background && !uses_background) continue;
    const float score = LOAD(scores + c);
    if (score > best || score != score) best = score;
    if (best != best) break;
  }
  return best;
}

// The kept candidates of each class of an image, or of the image if `is_fast`: indices of anchors by
// falling score at the begin of its part of `kept`, and their number in `counts`.
__kernel void suppress(TENSOR_IN(S, scores), TENSOR_IN(float, corners), TENSOR_OUT(ulong, keys),
                       TENSOR_OUT(int, kept), TENSOR_OUT(int, counts), int parts, int anchors,
                       int classes, int each, int is_fast, int background, int uses_background,
                       int limit, float confidence, float threshold, float eta) {
  TENSOR_READ(S, scores);
  TENSOR_READ(float, corners);
  TENSOR_WRITE(ulong, keys);
  TENSOR_WRITE(int, kept);
  TENSOR_WRITE(int, counts);
  const int part = get_global_id(0);
  if (part >= parts) return;
  const int image = is_fast ? part : part / classes, label = is_fast ? 0 : part % classes;
  __global ulong *order = keys + (long)part * anchors;
  __global int *best = kept + part * anchors;
  counts[part] = 0;
  if (!is_fast && label == background && !uses_background) return;
  int candidates = 0;
  for (int i = 0; i < anchors; i++) {
    __global const S *row = scores + (image * anchors + i) * classes;
    const float score =
        is_fast ? best_of(row, classes, background, uses_background) : LOAD(row + label);
    if (score > confidence) order[candidates++] = key_of(score, i);
  }
  sort(order, candidates);
  int count = 0;
  for (int n = 0; n < candidates && (limit < 0 || count < limit); n++) {
    const int i = INDEX(order[n]), shift = each > 1 ? label : 0;
    __global const float *box = corners + ((image * anchors + i) * each + shift) * 4;
    int stays = 1;
    // overlaps grow and the threshold falls, so that the last comparison decides
    for (int k = 0; k < count && stays; k++)
      stays = overlap(corners + ((image * anchors + best[k]) * each + shift) * 4, box) < threshold;
    if (!stays) continue;
    best[count++] = i;
    if (eta < 1.0f && threshold > 0.5f) threshold *= eta;
  }
  counts[part] = count;
}

// The detections of an image. `keys` has room for all kept ones.
__kernel void collect(TENSOR_IN(S, scores), TENSOR_IN(float, corners), TENSOR_IN(int, kept),
                      TENSOR_IN(int, counts), TENSOR_OUT(ulong, keys), TENSOR_OUT(S, values),
                      TENSOR_OUT(float, boxes), TENSOR_OUT(int, labels), TENSOR_OUT(int, numbers),
                      int images, int anchors, int classes, int each, int is_fast, int background,
                      int uses_background, int shows_background, int most, int limit) {
  TENSOR_READ(S, scores);
  TENSOR_READ(float, corners);
  TENSOR_READ(int, kept);
  TENSOR_READ(int, counts);
  TENSOR_WRITE(ulong, keys);
  TENSOR_WRITE(S, values);
  TENSOR_WRITE(float, boxes);
  TENSOR_WRITE(int, labels);
  TENSOR_WRITE(int, numbers);
  const int image = get_global_id(0);
  if (image >= images) return;
  const int parts = is_fast ? 1 : classes;
  __global ulong *order = keys + (long)image * parts * anchors;
  int found = 0, written = 0;
  for (int c = 0; c < parts; c++) {
    if (!is_fast && !shows_background && c == background) continue;
    const int part = image * parts + c;
    for (int k = 0; k < counts[part]; k++) {
      const int place = c * anchors + k, i = kept[part * anchors + k];
      const float score = is_fast ? 0.0f : LOAD(scores + (image * anchors + i) * classes + c);
      order[found++] = key_of(score, place);  // those of FAST are in order
    }
  }
  if (!is_fast) sort(order, found);
  const int used = classes - (background < classes && !uses_background);
  const int turns = is_fast ? (limit < 0 ? used : min(used, limit)) : 1;
  for (int n = 0; n < found && written < most; n++) {
    const int place = INDEX(order[n]), i = kept[image * parts * anchors + place];
    __global const S *row = scores + (image * anchors + i) * classes;
    float last = INFINITY;
    int before = -1;
    for (int turn = 0; turn < turns && written < most; turn++) {
      int label = place / anchors;
      if (is_fast) {  // the next best class: a lower score, or the same and a larger index
        label = -1;
        for (int c = 0; c < classes; c++) {
          if (c == background && !uses_background) continue;
          const float score = LOAD(row + c);
          if (!(score < last || (score == last && c > before))) continue;
          if (label < 0 || score > LOAD(row + label)) label = c;
        }
        last = LOAD(row + label), before = label;
        if (!shows_background && label == background) continue;
      }
      const int at = image * most + written++, shift = each > 1 ? label : 0;
      STORE(LOAD(row + label), values + at);
      for (int k = 0; k < 4; k++)
        boxes[at * 4 + k] = corners[((image * anchors + i) * each + shift) * 4 + k];
      labels[at] = label - (!shows_background && label > background);
    }
  }
  numbers[image] = written;
  for (int n = written; n < most; n++) {
    const int at = image * most + n;
    STORE(0.0f, values + at);
    for (int k = 0; k < 4; k++) boxes[at * 4 + k] = 0.0f;
    labels[at] = 0;
  }
}
