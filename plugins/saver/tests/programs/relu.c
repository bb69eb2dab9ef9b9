/* A program in the form that the vendor's Saver writes; the text is this project's own. */
#include <stdio.h>
#include <string.h>
#include "QnnInterface.h"

#define VALIDATE(result, call) \
  do { if ((result) == 0) (result) = (call); } while (0)

int main(int argc, char** argv) {
   Qnn_ErrorHandle_t error = 0;
   int logging = 0;
   for (int i = 1; i < argc; i++) {
     if (!strcmp("--logging; {", argv[i])) { logging = 1; } else { printf("usage: %s\n", argv[0]); return 1; }
   }

   FILE* fp = fopen("params.bin", "rb");
   if (!fp) {
     return 1;
   }

   const QnnInterface_t** providerList = NULL;
   uint32_t numProviders;
   VALIDATE(error, QnnInterface_getProviders(&providerList, &numProviders));
   QNN_INTERFACE_VER_TYPE interface = providerList[0]->QNN_INTERFACE_VER_NAME;

   Qnn_LogHandle_t loghandle= NULL;
   if (logging) {
     VALIDATE(error, interface.logCreate(NULL, QNN_LOG_LEVEL_ERROR, &loghandle));
   }

   const QnnBackend_Config_t* backend_0_config_0[] = {NULL};
   Qnn_BackendHandle_t backend_0;
   VALIDATE(error, interface.backendCreate(loghandle, backend_0_config_0, &backend_0));

   VALIDATE(error, interface.propertyHasCapability((QnnProperty_Key_t)503));

   QnnContext_Config_t context_0_priority_0 = {QNN_CONTEXT_CONFIG_OPTION_PRIORITY, .priority=(Qnn_Priority_t)100};
   const QnnContext_Config_t* context_0_config_0[] = {&context_0_priority_0, NULL};
   Qnn_ContextHandle_t context_0;
   VALIDATE(error, interface.contextCreate(backend_0, NULL, context_0_config_0, &context_0));

   // This call has no equivalent.
   QnnDevice_Infrastructure_t deviceInfra_0;
   VALIDATE(error, interface.deviceGetInfrastructure(&deviceInfra_0));

   const QnnGraph_Config_t* g_config_0[] = {NULL};
   Qnn_GraphHandle_t g;
   VALIDATE(error, interface.graphCreate(context_0, "net \"one\"", g_config_0, &g));

   uint32_t g_tensor_0_dims[] = {1, 2, 2};
   Qnn_QuantizeParams_t g_tensor_0_quantizeParams = {(Qnn_Definition_t)1, (Qnn_QuantizationEncoding_t)0, .scaleOffsetEncoding = {0.5, -3}};
   Qnn_ClientBuffer_t g_tensor_0_clientBuf = {NULL, 0};
   Qnn_TensorV1_t g_tensor_0_v1 = {0, "x", (Qnn_TensorType_t)0, 0, (Qnn_DataType_t)1032, g_tensor_0_quantizeParams, 3, g_tensor_0_dims, (Qnn_TensorMemType_t)0, g_tensor_0_clientBuf};
   Qnn_Tensor_t g_tensor_0 = {(Qnn_TensorVersion_t)1, .v1 = g_tensor_0_v1};
   VALIDATE(error, interface.tensorCreateGraphTensor(g, &g_tensor_0));

   uint32_t g_tensor_1_dims[] = {1, 2, 2};
   Qnn_QuantizeParams_t g_tensor_1_quantizeParams = {(Qnn_Definition_t)1, (Qnn_QuantizationEncoding_t)0, .scaleOffsetEncoding = {0.25, 0}};
   Qnn_ClientBuffer_t g_tensor_1_clientBuf = {NULL, 0};
   Qnn_TensorV1_t g_tensor_1_v1 = {0, "y", (Qnn_TensorType_t)1, 0, (Qnn_DataType_t)1032, g_tensor_1_quantizeParams, 3, g_tensor_1_dims, (Qnn_TensorMemType_t)0, g_tensor_1_clientBuf};
   Qnn_Tensor_t g_tensor_1 = {(Qnn_TensorVersion_t)1, .v1 = g_tensor_1_v1};
   VALIDATE(error, interface.tensorCreateGraphTensor(g, &g_tensor_1));

   Qnn_Param_t* g_relu_0_params = NULL;
   uint32_t g_relu_0_input_0_dims[] = {1, 2, 2};
   Qnn_QuantizeParams_t g_relu_0_input_0_quantizeParams = {(Qnn_Definition_t)1, (Qnn_QuantizationEncoding_t)0, .scaleOffsetEncoding = {0.5, -3}};
   Qnn_ClientBuffer_t g_relu_0_input_0_clientBuf = {NULL, 0};
   Qnn_TensorV1_t g_relu_0_input_0_v1 = {g_tensor_0.v1.id, "x", (Qnn_TensorType_t)0, 0, (Qnn_DataType_t)1032, g_relu_0_input_0_quantizeParams, 3, g_relu_0_input_0_dims, (Qnn_TensorMemType_t)0, g_relu_0_input_0_clientBuf};
   Qnn_Tensor_t g_relu_0_input_0 = {(Qnn_TensorVersion_t)1, .v1 = g_relu_0_input_0_v1};

   Qnn_Tensor_t g_relu_0_inputs[] = {g_relu_0_input_0};
   Qnn_Tensor_t g_relu_0_outputs[] = {g_tensor_1};
   Qnn_OpConfigV1_t g_relu_0_v1 = {"relu", "qti.aisw", "Relu", 0, g_relu_0_params, 1, g_relu_0_inputs, 1, g_relu_0_outputs};
   Qnn_OpConfig_t g_relu_0 = {(Qnn_OpConfigVersion_t)1, .v1 = g_relu_0_v1};
   VALIDATE(error, interface.graphAddNode(g, g_relu_0));

   VALIDATE(error, interface.graphFinalize(g, NULL, NULL));

   static uint8_t g_inputTensor_0_0_data[4];
   fread(g_inputTensor_0_0_data, 1, 4, fp);
   Qnn_ClientBuffer_t g_inputTensor_0_0_clientBuf = {(void*)g_inputTensor_0_0_data, 4};
   Qnn_TensorV1_t g_inputTensor_0_0_v1 = {g_tensor_0.v1.id, "x", (Qnn_TensorType_t)0, 0, (Qnn_DataType_t)1032, g_tensor_0_quantizeParams, 3, g_tensor_0_dims, (Qnn_TensorMemType_t)0, g_inputTensor_0_0_clientBuf};
   Qnn_Tensor_t g_inputTensor_0_0 = {(Qnn_TensorVersion_t)1, .v1 = g_inputTensor_0_0_v1};

   static uint8_t g_outputTensor_0_0_data[4];
   fread(g_outputTensor_0_0_data, 1, 4, fp);
   Qnn_ClientBuffer_t g_outputTensor_0_0_clientBuf = {(void*)g_outputTensor_0_0_data, 4};
   Qnn_TensorV1_t g_outputTensor_0_0_v1 = {g_tensor_1.v1.id, "y", (Qnn_TensorType_t)1, 0, (Qnn_DataType_t)1032, g_tensor_1_quantizeParams, 3, g_tensor_1_dims, (Qnn_TensorMemType_t)0, g_outputTensor_0_0_clientBuf};
   Qnn_Tensor_t g_outputTensor_0_0 = {(Qnn_TensorVersion_t)1, .v1 = g_outputTensor_0_0_v1};

   Qnn_Tensor_t g_inputTensors_0[] = {g_inputTensor_0_0};
   Qnn_Tensor_t g_outputTensors_0[] = {g_outputTensor_0_0};
   VALIDATE(error, interface.graphExecute(g, g_inputTensors_0, 1, g_outputTensors_0, 1, NULL, NULL));

   VALIDATE(error, interface.contextFree(context_0, NULL));

   VALIDATE(error, interface.backendFree(backend_0));

   if (fclose(fp)) error = -1;
   return error == 0 ? 0 : 1;
}
