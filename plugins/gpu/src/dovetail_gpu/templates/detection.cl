// Detections of an SSD head. Candidates are taken from a heap by falling score, and kept unless they
// overlap a kept one too much. A key is a number that grows with the score, above one that falls
// with the index: of equal scores the lower index comes first.

#define FAST 1
#define WITH_BACKGROUND 2
#define SHOWS_BACKGROUND 4

#if BOX_HALF
#define PUT_BOX(v, p) vstore_half_rte(v, 0, p)
#else
#define PUT_BOX(v, p) (*(p) = (v))
#endif

static ulong key_of(float score, uint index) {
  const uint bits = score == 0.0f ? 0u : as_uint(score);
  const uint rank = (bits >> 31) ? ~bits : bits | 0x80000000u;
  return ((ulong)rank << 32) | (0xffffffffu - index);
}

static uint index_of(ulong key) { return 0xffffffffu - (uint)(key & 0xffffffffu); }

static void sink(__global ulong *heap, int count, int i) {
  const ulong key = heap[i];
  for (;;) {
    int child = 2 * i + 1;
    if (child >= count) break;
    if (child + 1 < count && heap[child + 1] > heap[child]) child++;
    if (key >= heap[child]) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = key;
}

static float intersection(float8 a, float8 b) {
  const float2 least = max(a.s01, b.s01), most = min(a.s23, b.s23), size = max(most - least, 0.0f);
  return size.x * size.y;
}

// A work item for each box. A box becomes its corners as they are, then low and high corner.
__kernel void decode(TENSOR_IN(float, deltas), TENSOR_IN(float, anchors), TENSOR_OUT(float, boxes),
                     int count, int of_anchor, float fy, float fx, float fh, float fw) {
  TENSOR_READ(float, deltas);
  TENSOR_READ(float, anchors);
  TENSOR_WRITE(float, boxes);
  const int i = get_global_id(0);
  if (i >= count) return;
  deltas += (long)i * 4;
  anchors += (long)(i / of_anchor) * 4;
  boxes += (long)i * 4;
  const float y = anchors[0] + deltas[0] / fy * anchors[2];
  const float x = anchors[1] + deltas[1] / fx * anchors[3];
  const float h = anchors[2] * exp(deltas[2] / fh) / 2, w = anchors[3] * exp(deltas[3] / fw) / 2;
  boxes[0] = y - h;
  boxes[1] = x - w;
  boxes[2] = y + h;
  boxes[3] = x + w;
}

// Low corner, high corner and area of a box; the area is NaN if a coordinate is.
static float8 ordered(__global const float *p) {
  const float2 a = (float2)(p[0], p[1]), b = (float2)(p[2], p[3]);
  const float2 low = min(a, b), high = max(a, b), size = high - low;
  float area = size.x * size.y;
  if (a.x != a.x || a.y != a.y || b.x != b.x || b.y != b.y) area = NAN;
  return (float8)(low, high, area, 0.0f, 0.0f, 0.0f);
}

// A work item for each list: a class of an image, or an image if FAST. `limit` is the most that a
// list keeps.
__kernel void suppress(TENSOR_IN(float, scores), TENSOR_IN(float, boxes), TENSOR_OUT(ulong, heaps),
                       TENSOR_OUT(int, kept), TENSOR_OUT(int, counts), int lists, int anchors,
                       int classes, int of_anchor, int limit, int background, int flags,
                       float minimum, float threshold, float eta) {
  TENSOR_READ(float, scores);
  TENSOR_READ(float, boxes);
  TENSOR_WRITE(ulong, heaps);
  TENSOR_WRITE(int, kept);
  TENSOR_WRITE(int, counts);
  const int list = get_global_id(0);
  if (list >= lists) return;
  const bool fast = flags & FAST;
  const int image = fast ? list : list / classes, label = fast ? 0 : list % classes;
  __global ulong *heap = heaps + (long)list * anchors;
  kept += (long)list * limit;
  scores += (long)image * anchors * classes;
  boxes += (long)image * anchors * of_anchor * 4 + (of_anchor > 1 ? label * 4 : 0);
  const bool is_left_out =
      !fast && label == background && (flags & (WITH_BACKGROUND | SHOWS_BACKGROUND)) !=
                                          (WITH_BACKGROUND | SHOWS_BACKGROUND);
  int left = 0, count = 0;
  for (int i = 0; i < anchors && !is_left_out; i++) {
    float score = scores[i * classes + label];
    if (fast) {
      score = -INFINITY;
      for (int c = 0; c < classes; c++) {
        const float v = scores[i * classes + c];
        if ((flags & WITH_BACKGROUND) || c != background)
          score = v > score || v != v ? v : score;  // a NaN stays
      }
    }
    if (score > minimum) heap[left++] = key_of(score, i);
  }
  for (int i = left / 2 - 1; i >= 0; i--) sink(heap, left, i);
  while (left > 0 && count < limit) {
    const int best = index_of(heap[0]);
    heap[0] = heap[--left];
    if (left) sink(heap, left, 0);
    const float8 box = ordered(boxes + (long)best * of_anchor * 4);
    bool stays = true;
    for (int k = 0; k < count && stays; k++) {
      const float8 other = ordered(boxes + (long)kept[k] * of_anchor * 4);
      const float shared = intersection(box, other), all = box.s4 + other.s4 - shared;
      stays = (all > 0.0f ? shared / all : 0.0f) < threshold;
    }
    if (!stays) continue;
    kept[count++] = best;
    if (eta < 1.0f && threshold > 0.5f) threshold *= eta;
  }
  counts[list] = count;
}

// A work item for each image merges its lists. `heads` and `taken` have an element for each class,
// `each` is the number of classes that FAST shows of an anchor.
__kernel void merge(TENSOR_IN(float, scores), TENSOR_IN(float, boxes), TENSOR_IN(int, kept),
                    TENSOR_IN(int, counts), TENSOR_OUT(ulong, heads), TENSOR_OUT(int, taken),
                    TENSOR_OUT(S, y), TENSOR_OUT(BOX, corners), TENSOR_OUT(int, labels),
                    TENSOR_OUT(uint, found), int images, int anchors, int classes, int of_anchor,
                    int limit, int background, int flags, int most, int each) {
  TENSOR_READ(float, scores);
  TENSOR_READ(float, boxes);
  TENSOR_READ(int, kept);
  TENSOR_READ(int, counts);
  TENSOR_WRITE(ulong, heads);
  TENSOR_WRITE(int, taken);
  TENSOR_WRITE(S, y);
  TENSOR_WRITE(BOX, corners);
  TENSOR_WRITE(int, labels);
  TENSOR_WRITE(uint, found);
  const int image = get_global_id(0);
  if (image >= images) return;
  const bool fast = flags & FAST;
  scores += (long)image * anchors * classes;
  boxes += (long)image * anchors * of_anchor * 4;
  heads += (long)image * classes;
  taken += (long)image * classes;
  y += (long)image * most;
  labels += (long)image * most;
  corners += (long)image * most * 4;
  int count = 0, left = 0, anchor_count = 0, anchor = 0;
  if (!fast) {
    for (int c = 0; c < classes; c++) {
      const int list = image * classes + c;
      taken[c] = 0;
      if (counts[list]) heads[left++] = key_of(scores[kept[(long)list * limit] * classes + c], c);
    }
    for (int i = left / 2 - 1; i >= 0; i--) sink(heads, left, i);
  }
  while (count < most) {
    int label;
    if (fast) {
      if (left == 0) {  // the classes of the next anchor
        if (anchor_count == counts[image]) break;
        anchor = kept[(long)image * limit + anchor_count++];
        for (int c = 0; c < classes; c++)
          if ((flags & WITH_BACKGROUND) || c != background)
            heads[left++] = key_of(scores[anchor * classes + c], c);
        for (int i = left / 2 - 1; i >= 0; i--) sink(heads, left, i);
        taken[0] = 0;
      }
      label = index_of(heads[0]);
      heads[0] = heads[--left];
      if (left) sink(heads, left, 0);
      if (++taken[0] == each) left = 0;
      if (label == background && !(flags & SHOWS_BACKGROUND)) continue;
    } else {
      if (left == 0) break;
      label = index_of(heads[0]);
      const int list = image * classes + label;
      anchor = kept[(long)list * limit + taken[label]++];
      if (taken[label] < counts[list]) {
        const int next = kept[(long)list * limit + taken[label]];
        heads[0] = key_of(scores[next * classes + label], label);
      } else {
        heads[0] = heads[--left];
      }
      if (left) sink(heads, left, 0);
    }
    const float score = scores[anchor * classes + label];
    __global const float *box = boxes + ((long)anchor * of_anchor + (of_anchor > 1 ? label : 0)) * 4;
    STORE(score, y + count);
    for (int k = 0; k < 4; k++) PUT_BOX(box[k], corners + count * 4 + k);
    labels[count++] = label - (!(flags & SHOWS_BACKGROUND) && label > background);
  }
  found[image] = count;
  for (; count < most; count++) {
    STORE(0.0f, y + count);
    for (int k = 0; k < 4; k++) PUT_BOX(0.0f, corners + count * 4 + k);
    labels[count] = 0;
  }
}
