"""Drives the fake model servers with the clients of OpenAI and Ollama, whose own models judge every answer.

    model_clients.py <serve_fakes>
"""

import importlib.metadata
import json
import sys

import ollama
import openai
from openai.types import Model
from openai.types.chat import ChatCompletion
from standing import expect, standing, verdict

PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def tool(name):
    return {"type": "function", "function": {"name": name, "description": "Runs it.", "parameters": PARAMETERS}}


def drive_openai(place):
    client = openai.OpenAI(base_url=place["url"], api_key=place["token"])
    models = client.models.with_raw_response.list()
    listed = [Model.model_validate(model) for model in json.loads(models.text)["data"]]
    expect("models", place["model"] in [model.id for model in listed], True)
    messages = [{"role": "user", "content": "Fix add.sh."}]

    def ask():
        raw = client.chat.completions.with_raw_response.create(
            model=place["model"], messages=messages, tools=[tool("command-executor_execute_command")]
        )
        # The client itself takes anything; its model of the answer does not.
        return ChatCompletion.model_validate_json(raw.text).choices[0]

    choice = ask()
    (call,) = choice.message.tool_calls
    expect("a call", (choice.finish_reason, call.function.name), ("tool_calls", "command-executor_execute_command"))
    expect("its arguments", json.loads(call.function.arguments), {"command": "cat add.sh"})
    # Our fake wants texts and ids of letters only, which our program sends and real servers do not ask for.
    made = {"id": "call1", "type": "function", "function": call.function.model_dump(include={"name", "arguments"})}
    messages.append({"role": "assistant", "content": "", "tool_calls": [made]})
    messages.append({"role": "tool", "tool_call_id": "call1", "content": "echo $(($1 - $2))"})
    choice = ask()
    expect("the end", [call.function.name for call in choice.message.tool_calls], ["finish"])
    # The third answer is a limit; the client waits as it says, and asks again.
    completion = client.chat.completions.create(model=place["model"], messages=[{"role": "user", "content": "Hello"}])
    expect("after a limit", completion.choices[0].message.content, "Hello.")
    expect("tokens", (completion.usage.prompt_tokens, completion.usage.total_tokens), (9, 12))


def drive_ollama(place):
    client = ollama.Client(host=place["url"])
    shown = client.show(place["model"])
    expect("a window", shown.modelinfo["qwen2.context_length"], 131072)
    expect("what it can", "tools" in shown.capabilities, True)
    messages = [{"role": "user", "content": "Fix add.sh."}]
    options = {"num_ctx": 8192}
    answer = client.chat(place["model"], messages=messages, tools=[tool("run")], options=options)
    (call,) = answer.message.tool_calls
    expect("a call", (call.function.name, call.function.arguments), ("run", {"command": "cat add.sh"}))
    expect("counts", (answer.done, answer.prompt_eval_count, answer.eval_count), (True, 42, 10))
    # The client leaves out an empty text; our fake wants it, as our program sends it.
    answer.message.content = "I look."
    messages += [answer.message, {"role": "tool", "content": "echo $(($1 - $2))", "tool_name": "run"}]
    answer = client.chat(place["model"], messages=messages, tools=[tool("run")], options=options)
    expect("the end", (answer.message.content, answer.message.thinking), ("Fixed.", "It subtracts."))
    expect("its name among the models", place["model"] in [model.model for model in client.list().models], True)


with standing(sys.argv[1], "openai") as where:
    drive_openai(where)
with standing(sys.argv[1], "ollama") as where:
    drive_ollama(where)
versions = {name: importlib.metadata.version(name) for name in ("openai", "ollama")}
verdict(f"openai {versions['openai']} and ollama {versions['ollama']} understand the fake servers")
