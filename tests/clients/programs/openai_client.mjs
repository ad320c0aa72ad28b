// openai-node: answers, streams, tools, parse, responses, embeddings, errors.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { TEST_URL: baseURL, TEST_MODEL: model, TEST_VECTORS: vectorModel } = process.env;
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const content = "Name three rivers.";
const asked = { model, messages: [{ role: "user", content }], temperature: 0, max_tokens: 12 };

const answer = await client.chat.completions.create(asked);
const text = answer.choices[0].message.content;
assert.equal(answer.choices[0].message.refusal, null);
assert.ok(answer.usage.prompt_tokens > 0);

let streamed = "";
let usage = null;
for await (const chunk of await client.chat.completions.create({
  ...asked, stream: true, stream_options: { include_usage: true },
})) {
  streamed += chunk.choices[0]?.delta.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(streamed, text);
assert.equal(usage.completion_tokens, answer.usage.completion_tokens);

const helper = client.chat.completions.stream(asked);
assert.equal((await helper.finalChatCompletion()).choices[0].message.content, text);

const parameters = {
  type: "object", properties: { mood: { enum: ["good", "bad"] } }, required: ["mood"], additionalProperties: false,
};
const forced = {
  ...asked, max_tokens: 60, tool_choice: { type: "function", function: { name: "note" } },
  tools: [{ type: "function", function: { name: "note", description: "Write a mood down.", parameters } }],
};
const [call] = (await client.chat.completions.create(forced)).choices[0].message.tool_calls;
assert.match(JSON.parse(call.function.arguments).mood, /^(good|bad)$/);
const [again] = (await client.chat.completions.stream(forced).finalChatCompletion()).choices[0].message.tool_calls;
assert.equal(again.function.arguments, call.function.arguments);

const Pair = z.object({ size: z.enum(["small", "large"]), many: z.boolean() });
const parsed = await client.chat.completions.parse({
  ...asked, max_tokens: 60, response_format: zodResponseFormat(Pair, "pair"),
});
Pair.parse(parsed.choices[0].message.parsed);

const response = await client.responses.create({ model, input: content, temperature: 0, max_output_tokens: 12 });
assert.equal(response.output_text, text);
const told = client.responses.stream({ model, input: content, temperature: 0, max_output_tokens: 12 });
assert.equal((await told.finalResponse()).output_text, text);
const next = await client.responses.create({
  model, input: "Go on.", previous_response_id: response.id, temperature: 0, max_output_tokens: 12,
});
assert.ok(next.usage.input_tokens > response.usage.input_tokens);

const vectors = await client.embeddings.create({ model: vectorModel, input: ["a", "b"] });
assert.equal(vectors.data.length, 2);
assert.ok(Math.abs(Math.hypot(...vectors.data[0].embedding) - 1) < 1e-3);

await assert.rejects(client.chat.completions.create({ ...asked, temperature: 9 }), OpenAI.BadRequestError);
await assert.rejects(client.chat.completions.create({ ...asked, model: "other" }), OpenAI.NotFoundError);
console.log(JSON.stringify({ text }));
