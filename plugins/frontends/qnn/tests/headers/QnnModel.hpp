// The tests' own header: the declarations that a model.cpp uses, and a model that prints what is
// added to it. The numbers of the enumerations are in numbers.h, which the tests write.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include "numbers.h"
#define QNN_API
#define VALIDATE(value, status) do { status = value; if (status != MODEL_NO_ERROR) return status; } while (0)
#define BINVARSTART(NAME) ((void*)#NAME)
#define BINLEN(NAME) (sizeof(#NAME) - 1)
enum ModelError_t { MODEL_NO_ERROR = 0 };
typedef void* Qnn_BackendHandle_t;
typedef void* Qnn_ContextHandle_t;
typedef int QNN_INTERFACE_VER_TYPE;
typedef int QnnLog_Level_t;
typedef void (*QnnLog_Callback_t)();
struct QnnGraph_Config_t {};
struct GraphConfigInfo_t {};
struct GraphInfo_t {};
typedef GraphInfo_t* GraphInfoPtr_t;
typedef struct { float scale; int32_t offset; } Qnn_ScaleOffset_t;
typedef struct { int32_t axis; uint32_t numScaleOffsets; Qnn_ScaleOffset_t* scaleOffset; } Qnn_AxisScaleOffset_t;
typedef struct { uint32_t bitwidth; float scale; int32_t offset; } Qnn_BwScaleOffset_t;
typedef struct { uint32_t bitwidth; int32_t axis; uint32_t numElements; float* scales; int32_t* offsets; } Qnn_BwAxisScaleOffset_t;
typedef struct {
  int encodingDefinition;
  int quantizationEncoding;
  union {
    Qnn_ScaleOffset_t scaleOffsetEncoding;
    Qnn_AxisScaleOffset_t axisScaleOffsetEncoding;
    Qnn_BwScaleOffset_t bwScaleOffsetEncoding;
    Qnn_BwAxisScaleOffset_t bwAxisScaleOffsetEncoding;
  };
} Qnn_QuantizeParams_t;
typedef struct { void* data; uint32_t dataSize; } Qnn_ClientBuffer_t;
typedef struct { uint32_t numSpecifiedElements; uint32_t numSparseDimensions; } Qnn_SparseLayoutHybridCoo_t;
typedef struct { int type; union { Qnn_SparseLayoutHybridCoo_t hybridCoo; }; } Qnn_SparseParams_t;
#define FIELDS \
  uint32_t id; const char* name; int type; uint32_t dataFormat; int dataType; \
  Qnn_QuantizeParams_t quantizeParams; uint32_t rank; uint32_t* dimensions; int memType; \
  union { Qnn_ClientBuffer_t clientBuf; void* memHandle; };
typedef struct { FIELDS } Qnn_TensorV1_t;
typedef struct { FIELDS uint8_t* isDynamicDimensions; Qnn_SparseParams_t sparseParams; uint8_t isProduced; } Qnn_TensorV2_t;
typedef struct { int version; union { Qnn_TensorV1_t v1; Qnn_TensorV2_t v2; }; } Qnn_Tensor_t;
typedef struct {
  int dataType;
  union {
    float floatValue; double doubleValue; uint64_t uint64Value; int64_t int64Value; uint32_t uint32Value;
    int32_t int32Value; uint16_t uint16Value; int16_t int16Value; uint8_t uint8Value; int8_t int8Value;
    uint8_t bool8Value; uint16_t bfloat16Value; const char* stringValue;
  };
} Qnn_Scalar_t;
typedef struct { int paramType; const char* name; union { Qnn_Scalar_t scalarParam; Qnn_Tensor_t tensorParam; }; } Qnn_Param_t;

namespace qnn_wrapper_api {
class QnnModel {
 public:
  ModelError_t initialize(Qnn_BackendHandle_t, QNN_INTERFACE_VER_TYPE, Qnn_ContextHandle_t, const char* name, bool, uint8_t, const QnnGraph_Config_t**) {
    printf("graph %s\n", name);
    return MODEL_NO_ERROR;
  }
  ModelError_t addTensor(const char*, Qnn_Tensor_t tensor) {
    show("tensor", tensor);
    return MODEL_NO_ERROR;
  }
  ModelError_t addNode(int, const char* name, const char* package, const char* type, Qnn_Param_t* params, uint32_t paramCount,
                       const char** inputs, uint32_t inputCount, Qnn_Tensor_t* outputs, uint32_t outputCount) {
    printf("node %s %s %s\n", name, package, type);
    for (uint32_t i = 0; i < paramCount; i++) {
      if (params[i].paramType == QNN_PARAMTYPE_TENSOR) show("param", params[i].tensorParam);
      else printf("scalar %s %d %u\n", params[i].name, params[i].scalarParam.dataType, params[i].scalarParam.uint32Value);
    }
    for (uint32_t i = 0; i < inputCount; i++) printf("input %s\n", inputs[i]);
    for (uint32_t i = 0; i < outputCount; i++) show("output", outputs[i]);
    return MODEL_NO_ERROR;
  }

 private:
  void show(const char* what, const Qnn_Tensor_t& tensor) {
    // both versions begin with the same fields
    const Qnn_TensorV1_t& t = tensor.v1;
    printf("%s %s %d %d [", what, t.name, t.type, t.dataType);
    for (uint32_t i = 0; i < t.rank; i++) printf(" %u", t.dimensions[i]);
    printf(" ]");
    const Qnn_QuantizeParams_t& q = t.quantizeParams;
    if (q.encodingDefinition == 1 && q.quantizationEncoding == 0)
      printf(" %.9g %d", q.scaleOffsetEncoding.scale, q.scaleOffsetEncoding.offset);
    if (q.encodingDefinition == 1 && q.quantizationEncoding == 1) {
      const Qnn_AxisScaleOffset_t& axis = q.axisScaleOffsetEncoding;
      printf(" axis %d", axis.axis);
      for (uint32_t i = 0; i < axis.numScaleOffsets; i++) printf(" %.9g %d", axis.scaleOffset[i].scale, axis.scaleOffset[i].offset);
    }
    printf("\n");
  }
};
inline ModelError_t getQnnGraphConfigFromInfo(const char*, const GraphConfigInfo_t**, uint32_t, const QnnGraph_Config_t**&) { return MODEL_NO_ERROR; }
inline ModelError_t getGraphInfoFromModels(QnnModel*, uint32_t, GraphInfoPtr_t**) { return MODEL_NO_ERROR; }
inline ModelError_t freeGraphsInfo(GraphInfoPtr_t**, uint32_t) { return MODEL_NO_ERROR; }
}  // namespace qnn_wrapper_api
