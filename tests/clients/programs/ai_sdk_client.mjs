// The Vercel AI SDK: texts, streams, tools, objects, embeddings.
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";

const { TEST_URL: baseURL, TEST_MODEL: name, TEST_VECTORS: vectorModel } = process.env;
const provider = createOpenAICompatible({
  name: "reame", baseURL, apiKey: "none", includeUsage: true, supportsStructuredOutputs: true,
});
const asked = { model: provider(name), prompt: "Name three rivers.", temperature: 0, maxRetries: 0 };

const { text, usage, finishReason } = await generateText({ ...asked, maxOutputTokens: 12 });
assert.ok(["length", "stop"].includes(finishReason));

const stream = streamText({ ...asked, maxOutputTokens: 12 });
let streamed = "";
for await (const piece of stream.textStream) streamed += piece;
assert.equal(streamed, text);
assert.equal((await stream.usage).outputTokens, usage.outputTokens);

const note = tool({ description: "Write a mood down.", inputSchema: z.object({ mood: z.enum(["good", "bad"]) }) });
const called = await generateText({ ...asked, maxOutputTokens: 60, tools: { note }, toolChoice: "required" });
assert.match(called.toolCalls[0].input.mood, /^(good|bad)$/);
const calling = streamText({ ...asked, maxOutputTokens: 60, tools: { note }, toolChoice: "required" });
assert.deepEqual((await calling.toolCalls)[0].input, called.toolCalls[0].input);

const schema = z.object({ size: z.enum(["small", "large"]), many: z.boolean() });
const { object } = await generateObject({ ...asked, maxOutputTokens: 60, schema });
schema.parse(object);

const { embeddings } = await embedMany({ model: provider.textEmbeddingModel(vectorModel), values: ["a", "b"] });
assert.equal(embeddings.length, 2);

await assert.rejects(generateText({ ...asked, model: provider("other") }), (error) => error.statusCode === 404);
console.log(JSON.stringify({ text }));
