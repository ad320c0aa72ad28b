#!/usr/bin/env bash
# simonw/llm from the command line: streamed and not, a conversation that goes on, a schema, its list of models.
set -euo pipefail
LLM_USER_PATH=$(mktemp -d)
export LLM_USER_PATH
trap 'rm -rf "$LLM_USER_PATH"' EXIT
trap 'echo "failed in line $LINENO: $BASH_COMMAND" >&2' ERR
cat >"$LLM_USER_PATH/extra-openai-models.yaml" <<YAML
- model_id: reame
  model_name: $TEST_MODEL
  api_base: $TEST_URL
  supports_schema: true
  supports_tools: true
YAML
ask=("$1" prompt -m reame --key none -o temperature 0)
text=$("${ask[@]}" -o max_tokens 12 'Name three rivers.')
[[ $("${ask[@]}" -o max_tokens 12 --no-stream 'Name three rivers.') == "$text" ]]
[[ $("${ask[@]}" -o max_tokens 12 --continue 'And one more.') ]]
[[ $("${ask[@]}" -o max_tokens 40 --schema 'happy bool' 'How are you?') =~ ^\{\"happy\":\ *(true|false)\}$ ]]
[[ $("$1" models) == *reame* ]]
python3 -c 'import json, sys; print(json.dumps({"text": sys.argv[1]}))' "$text"
