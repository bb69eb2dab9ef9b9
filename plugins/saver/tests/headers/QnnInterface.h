/* The types that exported programs use, for checking that they are C; of this project's own. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define QNN_SUCCESS 0
#define QNN_COMMON_ERROR_NOT_SUPPORTED 1000
#define QNN_INTERFACE_VER_TYPE Interface
#define QNN_INTERFACE_VER_NAME calls

typedef uint64_t Qnn_ErrorHandle_t;
typedef void *Qnn_BackendHandle_t, *Qnn_DeviceHandle_t, *Qnn_ContextHandle_t, *Qnn_GraphHandle_t;
typedef void *Qnn_LogHandle_t, *Qnn_ProfileHandle_t, *Qnn_SignalHandle_t, *Qnn_MemHandle_t;
typedef uint32_t QnnProperty_Key_t, QnnProfile_Level_t, Qnn_TensorDataFormat_t;
typedef uint64_t QnnProfile_EventId_t;
typedef enum { LOG_LEVEL_ } QnnLog_Level_t;
typedef enum { TENSOR_TYPE_ } Qnn_TensorType_t;
typedef enum { DATA_TYPE_ } Qnn_DataType_t;
typedef enum { DEFINITION_ } Qnn_Definition_t;
typedef enum { ENCODING_ } Qnn_QuantizationEncoding_t;
typedef enum { MEM_TYPE_ } Qnn_TensorMemType_t;
typedef enum { TENSOR_VERSION_ } Qnn_TensorVersion_t;
typedef enum { OP_VERSION_ } Qnn_OpConfigVersion_t;
typedef enum { PARAM_TYPE_ } Qnn_ParamType_t;
typedef enum { STORAGE_ } Qnn_BlockwiseExpansionBlockScaleStorageType_t;
typedef enum { SPARSE_ } Qnn_SparseLayoutType_t;
typedef enum { PRIORITY_ } Qnn_Priority_t;
typedef struct { void *data; uint32_t dataSize; } Qnn_ClientBuffer_t;

typedef struct { float scale; int32_t offset; } Qnn_ScaleOffset_t;
typedef struct { float scale, offset; } Qnn_FloatScaleOffset_t;
typedef struct { int32_t axis; uint32_t numScaleOffsets; Qnn_ScaleOffset_t *scaleOffset; }
   Qnn_AxisScaleOffset_t;
typedef struct { uint32_t bitwidth; float scale; int32_t offset; } Qnn_BwScaleOffset_t;
typedef struct { uint32_t bitwidth; int32_t axis; uint32_t numElements; float *scales;
   int32_t *offsets; } Qnn_BwAxisScaleOffset_t;
typedef struct { uint32_t *blockSize; Qnn_ScaleOffset_t *scaleOffset; } Qnn_BlockEncoding_t;
typedef struct { int32_t axis; Qnn_ScaleOffset_t *scaleOffsets; uint32_t numBlocksPerAxis;
   uint32_t blockScaleBitwidth; Qnn_BlockwiseExpansionBlockScaleStorageType_t storage;
   union { uint8_t *blocksScale8; uint16_t *blocksScale16; }; } Qnn_BlockwiseExpansion_t;
typedef struct { Qnn_BwAxisScaleOffset_t bwAxisScaleOffset; uint32_t rowsPerBlock, columnsPerBlock;
   uint8_t vectorDimension, vectorStride, indexBitwidth; } Qnn_VectorEncoding_t;
typedef struct { uint32_t *blockSize; Qnn_FloatScaleOffset_t *scaleOffset; }
   Qnn_FloatBlockEncoding_t;
typedef struct { uint32_t bitwidth, mapping; int32_t axis; uint32_t numElements; float *scales;
   int32_t *offsets; } Qnn_BwAxisScaleOffsetMapped_t;
typedef struct { uint32_t bitwidth, mapping, *blockSize; Qnn_ScaleOffset_t *scaleOffset; }
   Qnn_BwBlockEncodingMapped_t;
typedef struct { uint32_t bitwidth, mapping; int32_t axis; Qnn_ScaleOffset_t *scaleOffsets;
   uint32_t numBlocksPerAxis, blockScaleBitwidth;
   Qnn_BlockwiseExpansionBlockScaleStorageType_t storage;
   union { uint8_t *blocksScale8; uint16_t *blocksScale16; }; } Qnn_BwBlockwiseExpansionMapped_t;
typedef struct { uint32_t bitwidth, *blockSize; Qnn_FloatScaleOffset_t *scaleOffset; }
   Qnn_BwFloatBlockEncoding_t;
typedef struct {
   Qnn_Definition_t encodingDefinition;
   Qnn_QuantizationEncoding_t quantizationEncoding;
   union {
      Qnn_ScaleOffset_t scaleOffsetEncoding;
      Qnn_AxisScaleOffset_t axisScaleOffsetEncoding;
      Qnn_BwScaleOffset_t bwScaleOffsetEncoding;
      Qnn_BwAxisScaleOffset_t bwAxisScaleOffsetEncoding;
      Qnn_BlockEncoding_t blockEncoding;
      Qnn_BlockwiseExpansion_t *blockwiseExpansion;
      Qnn_VectorEncoding_t *vectorEncoding;
      Qnn_FloatBlockEncoding_t floatBlockEncoding;
      Qnn_BwAxisScaleOffsetMapped_t bwAxisScaleOffsetMapped;
      Qnn_BwBlockEncodingMapped_t bwBlockEncodingMapped;
      Qnn_BwBlockwiseExpansionMapped_t bwBlockwiseExpansionMapped;
      Qnn_BwFloatBlockEncoding_t bwFloatBlockEncoding;
   };
} Qnn_QuantizeParams_t;

#define TENSOR_FIELDS \
   uint32_t id; const char *name; Qnn_TensorType_t type; Qnn_TensorDataFormat_t dataFormat; \
   Qnn_DataType_t dataType; Qnn_QuantizeParams_t quantizeParams; uint32_t rank; \
   uint32_t *dimensions; Qnn_TensorMemType_t memType; \
   union { Qnn_ClientBuffer_t clientBuf; Qnn_MemHandle_t memHandle; };
typedef struct { Qnn_SparseLayoutType_t type; union { struct { uint32_t a, b; } hybridCoo; }; }
   Qnn_SparseParams_t;
typedef struct { TENSOR_FIELDS } Qnn_TensorV1_t;
typedef struct { TENSOR_FIELDS uint8_t *isDynamicDimensions; Qnn_SparseParams_t sparseParams;
   uint8_t isProduced; } Qnn_TensorV2_t;
typedef struct { Qnn_TensorVersion_t version; union { Qnn_TensorV1_t v1; Qnn_TensorV2_t v2; }; }
   Qnn_Tensor_t;

typedef struct { Qnn_DataType_t dataType; union { float floatValue; double doubleValue;
   uint64_t uint64Value; int64_t int64Value; uint32_t uint32Value; int32_t int32Value;
   uint16_t uint16Value; int16_t int16Value; uint8_t uint8Value; int8_t int8Value;
   uint8_t bool8Value; uint16_t bfloat16Value; const char *stringValue; }; } Qnn_Scalar_t;
typedef struct { Qnn_ParamType_t paramType; const char *name;
   union { Qnn_Scalar_t scalarParam; Qnn_Tensor_t tensorParam; }; } Qnn_Param_t;
typedef struct { const char *name, *packageName, *typeName; uint32_t numOfParams;
   Qnn_Param_t *params; uint32_t numOfInputs; Qnn_Tensor_t *inputTensors; uint32_t numOfOutputs;
   Qnn_Tensor_t *outputTensors; } Qnn_OpConfigV1_t;
typedef struct { Qnn_OpConfigVersion_t version; union { Qnn_OpConfigV1_t v1; }; } Qnn_OpConfig_t;

typedef enum { DEPTH_TYPE_ } QnnContext_AsyncExecutionQueueDepthType_t;
typedef enum { COMPATIBILITY_ } QnnContext_BinaryCompatibilityType_t;
typedef enum { CONTEXT_OPTION_ } QnnContext_ConfigOption_t;
typedef enum { GRAPH_OPTION_ } QnnGraph_ConfigOption_t;
typedef enum { SIGNAL_OPTION_ } QnnSignal_ConfigOption_t;
typedef struct { QnnContext_AsyncExecutionQueueDepthType_t type; uint32_t depth; }
   QnnContext_AsyncExecutionQueueDepth_t;
typedef struct { int option; } QnnBackend_Config_t;
typedef struct { int option; } QnnDevice_Config_t;
typedef struct { QnnContext_ConfigOption_t option; union { Qnn_Priority_t priority;
   QnnContext_AsyncExecutionQueueDepth_t asyncExeQueueDepth; uint64_t memoryLimitHint;
   uint8_t isPersistentBinary; QnnContext_BinaryCompatibilityType_t cacheCompatibilityMode; }; }
   QnnContext_Config_t;
typedef struct { QnnGraph_ConfigOption_t option; union { Qnn_Priority_t priority; }; }
   QnnGraph_Config_t;
typedef struct { QnnSignal_ConfigOption_t option; uint64_t durationInUs; } QnnSignal_Config_t;
typedef struct { int version; } QnnDevice_PlatformInfo_t;
typedef void (*Notify)(void *, Qnn_ErrorHandle_t);

#define CALL(name, ...) Qnn_ErrorHandle_t (*name)(__VA_ARGS__);
typedef struct {
   CALL(backendCreate, Qnn_LogHandle_t, const QnnBackend_Config_t **, Qnn_BackendHandle_t *)
   CALL(backendFree, Qnn_BackendHandle_t)
   CALL(propertyHasCapability, QnnProperty_Key_t)
   CALL(deviceCreate, Qnn_LogHandle_t, const QnnDevice_Config_t **, Qnn_DeviceHandle_t *)
   CALL(deviceGetPlatformInfo, Qnn_LogHandle_t, const QnnDevice_PlatformInfo_t **)
   CALL(deviceFree, Qnn_DeviceHandle_t)
   CALL(contextCreate, Qnn_BackendHandle_t, Qnn_DeviceHandle_t, const QnnContext_Config_t **,
        Qnn_ContextHandle_t *)
   CALL(contextFree, Qnn_ContextHandle_t, Qnn_ProfileHandle_t)
   CALL(tensorCreateContextTensor, Qnn_ContextHandle_t, Qnn_Tensor_t *)
   CALL(tensorCreateGraphTensor, Qnn_GraphHandle_t, Qnn_Tensor_t *)
   CALL(graphCreate, Qnn_ContextHandle_t, const char *, const QnnGraph_Config_t **,
        Qnn_GraphHandle_t *)
   CALL(graphRetrieve, Qnn_ContextHandle_t, const char *, Qnn_GraphHandle_t *)
   CALL(graphAddNode, Qnn_GraphHandle_t, Qnn_OpConfig_t)
   CALL(graphSetConfig, Qnn_GraphHandle_t, const QnnGraph_Config_t **)
   CALL(graphFinalize, Qnn_GraphHandle_t, Qnn_ProfileHandle_t, Qnn_SignalHandle_t)
   CALL(graphExecute, Qnn_GraphHandle_t, const Qnn_Tensor_t *, uint32_t, Qnn_Tensor_t *, uint32_t,
        Qnn_ProfileHandle_t, Qnn_SignalHandle_t)
   CALL(graphExecuteAsync, Qnn_GraphHandle_t, const Qnn_Tensor_t *, uint32_t, Qnn_Tensor_t *,
        uint32_t, Qnn_ProfileHandle_t, Qnn_SignalHandle_t, Notify, void *)
   CALL(profileCreate, Qnn_BackendHandle_t, QnnProfile_Level_t, Qnn_ProfileHandle_t *)
   CALL(profileGetEvents, Qnn_ProfileHandle_t, const QnnProfile_EventId_t **, uint32_t *)
   CALL(profileFree, Qnn_ProfileHandle_t)
   CALL(signalCreate, Qnn_BackendHandle_t, const QnnSignal_Config_t **, Qnn_SignalHandle_t *)
   CALL(signalTrigger, Qnn_SignalHandle_t)
   CALL(signalFree, Qnn_SignalHandle_t)
   CALL(logCreate, void *, QnnLog_Level_t, Qnn_LogHandle_t *)
   CALL(logSetLogLevel, Qnn_LogHandle_t, QnnLog_Level_t)
   CALL(logFree, Qnn_LogHandle_t)
} Interface;
typedef struct { Interface calls; } QnnInterface_t;
Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t ***, uint32_t *);
