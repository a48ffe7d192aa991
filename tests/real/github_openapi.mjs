// Judges recorded exchanges by GitHub's official OpenAPI description, and makes the part of it that Prism serves.
//
//   node github_openapi.mjs <directory of @octokit/openapi's descriptions> <journal> <where to write the part>
//
// Requests: path, method, and the names of query and body fields exist, in github.com's description and in those of
// Enterprise Server. Answers of the fake: the status is one the operation has, the body fits its schema.

import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const [directory, journal, out] = process.argv.slice(2);
const require = createRequire(path.join(process.cwd(), "package.json"));
const Ajv = require("ajv").default;
const addFormats = require("ajv-formats").default;

const METHODS = ["get", "post", "put", "patch", "delete"];
/**
 * Where the description of the REST API forbids a null that GitHub sends: its own description of the webhooks, which
 * carry the same objects, allows each of them.
 */
const TOO_NARROW = [
  "GET /repos/{owner}/{repo}/pulls/{pull_number}: /requested_reviewers/* must be object",
  "GET /repos/{owner}/{repo}/pulls/{pull_number}: /head/repo must be object",
  "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments: /*/position must be integer",
  "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments: /*/line must be integer",
];
const narrower = new Set();
const faults = new Map();
const fault = (text) => faults.set(text, (faults.get(text) ?? 0) + 1);

const read = (name) => JSON.parse(fs.readFileSync(path.join(directory, name)));
const exchanges = fs.readFileSync(journal, "utf8").trim().split("\n").map((line) => JSON.parse(line));

/** What `$ref` points to, all the way. */
const follow = (doc, value) =>
  value?.$ref ? follow(doc, value.$ref.split("/").slice(1).reduce((at, key) => at[key], doc)) : value;

/** Templates of a description, those with most words of their own first. */
function templates(doc) {
  const list = Object.entries(doc.paths).map(([template, item]) => {
    const parts = template.split("/").map((part) =>
      part.startsWith("{") ? "[^/]+" : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return { template, item, expression: new RegExp(`^${parts.join("/")}$`) };
  });
  return list.sort((a, b) => a.template.split("{").length - b.template.split("{").length);
}

function operationOf(list, method, plain) {
  const found = list.find((one) => one.expression.test(plain) && one.item[method.toLowerCase()]);
  return found && { ...found, operation: found.item[method.toLowerCase()] };
}

/** Names of the request that the description does not have. */
function strangeNames(doc, { item, operation }, query, body) {
  const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((one) => follow(doc, one));
  const known = parameters.filter((one) => one.in === "query").map((one) => one.name);
  const strange = [...new URLSearchParams(query).keys()].filter((name) => !known.includes(name));
  if (body === "") return strange;
  const schema = follow(doc, operation.requestBody)?.content?.["application/json"]?.schema;
  const fields = new Set();
  const collect = (one) => {
    const here = follow(doc, one) ?? {};
    Object.keys(here.properties ?? {}).forEach((name) => fields.add(name));
    [...(here.oneOf ?? []), ...(here.anyOf ?? []), ...(here.allOf ?? [])].forEach(collect);
  };
  collect(schema);
  return [...strange, ...Object.keys(body).filter((name) => !fields.has(name))];
}

/** Schemas of OpenAPI 3.0 as JSON Schema: `nullable` becomes a type. */
function plainSchema(value) {
  if (Array.isArray(value)) return value.map(plainSchema);
  if (value === null || typeof value !== "object") return value;
  const { nullable, discriminator, example, ...rest } = value;
  const schema = Object.fromEntries(Object.entries(rest).map(([key, inner]) => [key, plainSchema(inner)]));
  return nullable === true ? { anyOf: [schema, { type: "null" }] } : schema;
}

/** The description with nothing but `used`, and the media type that GitHub recommends to ask for. */
function part(doc, used) {
  const paths = {};
  for (const { template, item, method } of used) {
    paths[template] ??= item.parameters ? { parameters: item.parameters } : {};
    paths[template][method] = item[method];
  }
  const components = {};
  const reach = (value) => {
    if (value === null || typeof value !== "object") return;
    if (typeof value.$ref === "string" && value.$ref.startsWith("#/components/")) {
      const [kind, name] = value.$ref.split("/").slice(2);
      components[kind] ??= {};
      if (!components[kind][name]) {
        components[kind][name] = doc.components[kind][name];
        reach(components[kind][name]);
      }
    }
    Object.values(value).forEach(reach);
  };
  reach(paths);
  const kept = structuredClone({ openapi: doc.openapi, info: doc.info, servers: doc.servers, paths, components });
  const responses = Object.values(kept.paths).flatMap((item) =>
    METHODS.filter((method) => item[method]).flatMap((method) => Object.values(item[method].responses)));
  for (const response of [...responses, ...Object.values(kept.components.responses ?? {})]) {
    // Of its pages there is one; the next is on GitHub itself.
    delete response.headers;
    const json = response.content?.["application/json"];
    if (!json) continue;
    response.content["application/vnd.github+json"] = json;
    // Some examples refer to another one at a place where OpenAPI knows no references.
    for (const [name, example] of Object.entries(json.examples ?? {})) {
      if (example.value?.$ref) json.examples[name] = example.value;
    }
  }
  // What random answers cannot know from the description: numbers are not negative, and a full name has two parts.
  const narrow = (value) => {
    if (value === null || typeof value !== "object") return;
    if (value.type === "integer" && value.minimum === undefined) value.minimum = 0;
    if (value.full_name?.type === "string") value.full_name.pattern = "^[a-z]{3,9}/[a-z]{3,9}$";
    Object.values(value).forEach(narrow);
  };
  narrow(kept.components.schemas);
  return kept;
}

const doc = read("api.github.com.json");
const lists = ["api.github.com.json", "ghes-3.17.json", "ghes-3.19.json"].map((name) => {
  const description = name === "api.github.com.json" ? doc : read(name);
  return { name, description, list: templates(description) };
});
const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: true });
addFormats(ajv);
ajv.addSchema({ components: plainSchema(doc.components) }, "github");
const validators = new Map();
const validator = (schema) => {
  const key = JSON.stringify(schema);
  if (!validators.has(key)) {
    validators.set(key, ajv.compile(JSON.parse(key.replaceAll('"#/components/', '"github#/components/'))));
  }
  return validators.get(key);
};

const used = new Map();
const requests = new Map();
let answers = 0;
let given = 0;
for (const exchange of exchanges) {
  const [plain, query = ""] = exchange.target.split("?");
  // GitHub itself gives out these addresses, in links and redirects; its description leaves them out.
  if (plain.startsWith("/repositories/")) {
    given += 1;
    continue;
  }
  for (const { name, description, list } of lists) {
    const found = operationOf(list, exchange.method, plain);
    if (!found) {
      fault(`${name}: no ${exchange.method} ${plain}`);
      continue;
    }
    const strange = strangeNames(description, found, query, exchange.body);
    if (strange.length) fault(`${name}: ${exchange.method} ${found.template} has no field ${strange.join(", ")}`);
  }
  const found = operationOf(lists[0].list, exchange.method, plain);
  if (!found) continue;
  const method = exchange.method.toLowerCase();
  const what = `${exchange.method} ${found.template}`;
  used.set(what, { ...found, method });
  const { target, headers, body } = exchange;
  requests.set(JSON.stringify([method, target, body]), { method: exchange.method, target, headers, body });

  if (exchange.ordered) continue;
  answers += 1;
  const stated = follow(doc, found.operation.responses[exchange.status]);
  // Refusals and redirects that every call can meet stand with few of them.
  const common = [301, 307, 401, 403, 404].includes(exchange.status) && { $ref: "#/components/schemas/basic-error" };
  // "Not modified" to a conditional request; it has no body.
  if (exchange.status === 304) continue;
  const schema = stated ? stated.content?.["application/json"]?.schema : common;
  if (!stated && !common) fault(`the fake answers ${what} with ${exchange.status}, which is none of its answers`);
  if (!schema) continue;
  const check = validator(plainSchema(schema));
  if (check(exchange.answer)) continue;
  for (const error of check.errors) {
    if (["anyOf", "oneOf"].includes(error.keyword) && check.errors.length > 1) continue;
    const where = error.instancePath.replace(/\/\d+/g, "/*");
    const told = `${what}: ${where} ${error.message}`;
    if (TOO_NARROW.includes(told)) narrower.add(told);
    else fault(`the fake's answer ${exchange.status} to ${told}`);
  }
}

fs.writeFileSync(path.join(out, "part.json"), JSON.stringify(part(doc, [...used.values()])));
fs.writeFileSync(path.join(out, "requests.json"), JSON.stringify([...requests.values()]));
console.log(`${exchanges.length} exchanges, ${given} of them at addresses GitHub gave out; ${requests.size} different ` +
  `requests to ${used.size} operations; ${answers} answers of the fake, ${narrower.size} known nulls among them`);
for (const [text, times] of faults) console.log(`FAULT (${times} times) ${text}`);
process.exitCode = faults.size || !requests.size ? 1 : 0;
