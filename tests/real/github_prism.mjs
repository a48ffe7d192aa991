// Two judges more: Prism, which serves GitHub's description, is sent every different request of ours; and our adapter
// reads what Prism makes up from the description, its examples and random answers.
//
//   node github_prism.mjs <directory with part.json and requests.json> <read_forge> <rounds>

import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import readline from "node:readline";
import { spawn } from "node:child_process";

const [directory, reader, rounds] = process.argv.slice(2);
const prism = path.join(process.cwd(), "node_modules/.bin/prism");
const faults = new Map();
const fault = (text) => faults.set(text, (faults.get(text) ?? 0) + 1);

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A Prism of its own around `work`. */
async function served(options, work) {
  const port = await freePort();
  const arguments_ = ["mock", "--host", "127.0.0.1", "--port", port, ...options, path.join(directory, "part.json")];
  const child = spawn(prism, arguments_, { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve, reject) => {
    child.stdout.on("data", (text) => String(text).includes("Prism is listening") && resolve());
    child.once("exit", (code) => reject(new Error(`prism ended with ${code}`)));
  });
  try {
    return await work(`http://127.0.0.1:${port}`);
  } finally {
    child.kill();
  }
}

async function replay(url) {
  const requests = JSON.parse(fs.readFileSync(path.join(directory, "requests.json")));
  const ours = ["accept", "content-type", "user-agent", "x-github-api-version"];
  for (const { method, target, headers, body } of requests) {
    const kept = Object.fromEntries(headers.filter(([name]) => ours.includes(name)));
    const sent = body === "" ? undefined : JSON.stringify(body);
    const answer = await fetch(url + target, { method, headers: { ...kept, authorization: "Bearer x" }, body: sent });
    const text = await answer.text();
    if (answer.status < 300) continue;
    // Some examples of the description do not fit its own schemas; that says nothing about the request.
    const wrong = JSON.parse(text).validation?.filter(({ location }) => location[0] !== "response");
    if (wrong?.length !== 0) fault(`Prism refuses ${method} ${target} with ${answer.status}: ${text.slice(0, 500)}`);
  }
  return requests.length;
}

const place = { owner: "octocat", repo: "Hello-World", number: 1347 };
const questions = [
  { do: "connect" },
  { do: "candidates" },
  { do: "candidates", query: "is:open" },
  { do: "item", ...place },
  { do: "item", ...place, change: true },
  { do: "comments", ...place },
  { do: "comments", ...place, change: true },
  { do: "may_write", ...place, user: "octocat" },
  { do: "repository", ...place },
  { do: "repository", ...place, change: true },
  { do: "find", ...place, branch: "coding-agent/issue-1347" },
  { do: "comment", ...place, body: "Done." },
  { do: "add_label", ...place, label: "coding agent done" },
  { do: "remove_label", ...place, label: "coding agent" },
  { do: "open", ...place, branch: "coding-agent/issue-1347", base: "main", title: "A fix", body: "Closes #1347" },
];
// What made-up answers can truly say to us: a token that belongs to somebody who may not push, and the like.
const SENTENCES = [/may not push/, /is archived/, /cannot remove the label/, /the repository that held the branch/];

async function read(url, times) {
  const asked = Array.from({ length: times }, () => questions).flat();
  const child = spawn(reader, ["github", url], { stdio: ["pipe", "pipe", "inherit"], env: { NO_PROXY: "127.0.0.1" } });
  let told = 0;
  let errors = 0;
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
  child.stdin.end(asked.map((one) => JSON.stringify(one)).join("\n"));
  for await (const line of readline.createInterface({ input: child.stdout })) {
    told += 1;
    const { asked: question, error, cause, good } = JSON.parse(line);
    const complaints = error ? [error] : (good?.faults ?? []);
    errors += complaints.length;
    for (const text of complaints) {
      if (!SENTENCES.some((known) => known.test(text))) fault(`our adapter cannot ${question.do}: ${text.replace(url, "")}; ${cause}`);
    }
  }
  const code = await ended;
  if (code !== 0 || told !== asked.length) fault(`our adapter ended with ${code} after ${told} of ${asked.length}`);
  return { told, errors };
}

const replayed = await served(["--errors"], replay);
const examples = await served([], (url) => read(url, 1));
const random = await served(["--dynamic"], (url) => read(url, Number(rounds)));
console.log(`Prism took ${replayed} different requests; our adapter read ${examples.told} times from examples ` +
  `(${examples.errors} refusals told), ${random.told} times from random answers (${random.errors})`);
for (const [text, times] of faults) console.log(`FAULT (${times} times) ${text}`);
process.exitCode = faults.size ? 1 : 0;
