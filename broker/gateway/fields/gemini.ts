/**
 * What the Gemini API may be asked: `generateContent`, `streamGenerateContent` and `countTokens`, of `/v1` and
 * `/v1beta`. Its parser reads each key in two spellings, with humps and with underscores.
 */

import { asObject } from "../metering/usage.ts";
import {
  count,
  data,
  each,
  either,
  type FieldShapes,
  flag,
  from,
  gated,
  id,
  label,
  list,
  map,
  number,
  outputBound,
  path_model,
  priced,
  proto,
  proto_inline,
  type Table,
  text,
  toolbox,
} from "./shapes.ts";

const SDK = "@google/genai 2.32, as it writes for the Gemini API";

const fileData = gated("fileData", "the vendor would fetch a URI, or read a file that it holds");
const code = gated("codeExecution", "only code that the vendor ran leads to it");
const vendor_call = gated("toolCall", "only a tool of the vendor's leads to it");
const inlineData = proto({ mimeType: label, data: proto_inline, displayName: text });

const part = proto({
  text,
  thought: flag,
  thoughtSignature: text,
  functionCall: proto({ id, name: id, args: data, partialArgs: data, willContinue: flag }),
  functionResponse: proto({
    id,
    name: id,
    response: data,
    parts: list(proto({ inlineData, fileData })),
    scheduling: label,
    willContinue: flag,
  }),
  inlineData,
  fileData,
  videoMetadata: proto({ startOffset: label, endOffset: label, fps: number }),
  mediaResolution: proto({ level: label, numTokens: count }),
  partMetadata: data,
  ...each(code, "executableCode codeExecutionResult"),
  ...each(vendor_call, "toolCall toolResponse"),
});
const content = proto({ role: label, parts: either({ list: list(part), object: part }) });

const schemas = each(data, "parameters parametersJsonSchema response responseJsonSchema");
const declaration = proto({ name: id, description: text, behavior: label, ...schemas });
/** Tools that the client runs; any other key is one of the vendor's. */
const tool = toolbox({
  functionDeclarations: either({ list: list(declaration), object: declaration }),
  computerUse: proto({
    environment: label,
    excludedPredefinedFunctions: list(id),
    enablePromptInjectionDetection: flag,
    disabledSafetyPolicies: list(label),
  }),
});

const voice = proto({ prebuiltVoiceConfig: proto({ voiceName: id }) });
const generationConfig = proto({
  ...each(number, "temperature topP topK presencePenalty frequencyPenalty seed"),
  ...each(count, "maxOutputTokens candidateCount logprobs"),
  ...each(label, "responseMimeType mediaResolution"),
  ...each(data, "responseSchema responseJsonSchema"),
  ...each(flag, "responseLogprobs audioTimestamp enableEnhancedCivicAnswers"),
  stopSequences: list(text),
  responseModalities: list(label),
  thinkingConfig: proto({ includeThoughts: flag, thinkingBudget: count, thinkingLevel: label }),
  speechConfig: proto({ voiceConfig: voice, languageCode: label }),
  imageConfig: proto({ aspectRatio: label, imageSize: label }),
});

const request: FieldShapes = {
  model: path_model,
  contents: either({ list: list(content), object: content }),
  systemInstruction: content,
  tools: either({ list: list(tool), object: tool }),
  toolConfig: proto({
    functionCallingConfig: proto({
      mode: label,
      allowedFunctionNames: list(id),
      streamFunctionCallArguments: flag,
    }),
    includeServerSideToolInvocations: flag,
  }),
  safetySettings: list(proto({ category: label, threshold: label, method: label })),
  generationConfig,
  labels: map(text),
  cachedContent: gated("cachedContent", "it names content that the vendor holds, with its tools"),
  serviceTier: priced("standard unspecified service_tier_standard service_tier_unspecified"),
  store: gated("store", "the vendor would keep the answer"),
};

export const GENERATE: Table = {
  versions: ["v1beta"],
  source: SDK,
  body: proto(from(SDK, request)),
  max_output: (body) => {
    const config = asObject(body.generationConfig) ?? asObject(body.generation_config);
    const limit = config?.maxOutputTokens ?? config?.max_output_tokens;
    return outputBound([limit], config?.candidateCount ?? config?.candidate_count);
  },
  at_list_price: (body) => /^(?:service_tier_)?standard$/i.test(String(body.serviceTier ?? body.service_tier)),
};

export const COUNT_TOKENS: Table = {
  versions: ["v1beta"],
  source: SDK,
  body: proto(from(SDK, { ...request, generateContentRequest: proto(request) })),
  max_output: () => outputBound([]),
  at_list_price: () => true,
};
