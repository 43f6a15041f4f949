/**
 * Deployments whose responses must be equal: the current version by `fetch`, the current version by Hono's routes
 * alone, and the previous version.
 */
import { createApp } from "../../src/app.ts";
import { IsolateBudget, isolateBudgetBytes } from "../../src/limiter/object/key-cache.ts";
import { KeyObject } from "../../src/limiter/object/key-object.ts";
import { isFull } from "../mode.ts";
import * as previous from "../previous-version/app.js";
import { type Answer, type Origin, type RecordedRequest, replay, type Target } from "./replay.ts";

const newObject: Target["newObject"] = (platform) =>
  new KeyObject({ ...platform, isolate: new IsolateBudget(isolateBudgetBytes) });

/** Called by `fetch`, as the platform calls the Worker. */
export const currentVersion: Target = {
  name: "the current version",
  handlerOf: (env) => {
    const app = createApp(env as Env);
    return (request, ...rest) => app.fetch(request, rest[0] as Env, rest[1] as ExecutionContext);
  },
  newObject,
};

/** Called by Hono's routes, which the fast path of `fetch` skips for most requests. */
const honoAlone: Target = {
  name: "the current version with Hono alone",
  handlerOf: (env) => {
    const app = createApp(env as Env);
    return (request, ...rest) => app.routes.fetch(request, rest[0], rest[1] as ExecutionContext);
  },
  newObject,
};

export const previousVersion: Target = {
  name: "the previous version",
  handlerOf: (env) => {
    const { routes } = previous.createApp(env);
    return (request, ...rest) => routes.fetch(request, ...rest);
  },
  newObject: (platform) =>
    new previous.Limiter({
      ...platform,
      isolate: new previous.IsolateBudget(previous.isolateBudgetBytes),
    }),
};

export interface Comparison {
  /** The answers of the previous version. */
  readonly answers: readonly Answer[];
  /** A description of each answer that differs from the previous version's. */
  readonly differences: readonly string[];
}

/** Rolling deployments: isolates of one version call objects of the other version. */
const mixed: readonly Target[] = [
  {
    ...currentVersion,
    name: "the current version with objects of the previous one",
    newObject: previousVersion.newObject,
  },
  {
    ...previousVersion,
    name: "the previous version with current objects",
    newObject: currentVersion.newObject,
  },
];

/**
 * The fields of a policy that the previous version does not have: it rejects policies with them, and does not list them among
 * the accepted fields.
 */
const addedFields = ["within", "guaranteed", "weight", "classes"];

const isKnown = ({ variables }: RecordedRequest): boolean => {
  const policies: unknown = Reflect.get(variables, "POLICIES");
  const hasAdded = (policy: object): boolean => addedFields.some((name) => Object.hasOwn(policy, name));
  return !Array.isArray(policies) || !policies.some(hasAdded);
};

/** The parts of explanations that the previous version words otherwise, or does not have. */
const changedTexts = [/\\"nextChange\\":\\"Without further requests[^"]*",/g, /\\"key\\":\\"[^"]*",(?=\\"policy\\":)/g];

function comparable(answer: Answer | undefined): string {
  const text = addedFields.reduce((known, name) => known.replaceAll(`, ${name}`, ""), JSON.stringify(answer) ?? "");
  return changedTexts.reduce((known, changed) => known.replaceAll(changed, ""), text);
}

/**
 * Replays requests in all deployments, each with objects of its own. Leaves out requests that the previous version does not
 * know.
 */
export async function compare(
  all: readonly RecordedRequest[],
  origin: Origin,
  compared: readonly Target[] = isFull ? [currentVersion, honoAlone, ...mixed] : [currentVersion, honoAlone],
): Promise<Comparison> {
  const requests = all.filter(isKnown);
  const expected = await replay(previousVersion, requests, origin);
  const found: string[] = [];
  for (const target of compared) {
    // The replays replace the same globals.
    // oxlint-disable-next-line no-await-in-loop
    const answers = await replay(target, requests, origin);
    for (const [index, request] of requests.entries()) {
      const [is, was] = [answers[index], expected[index]];
      if (comparable(is) !== comparable(was)) found.push(described(target, request, was, is));
    }
  }
  return { answers: expected, differences: found };
}

const described = (
  { name }: Target,
  { url, init, atMs, variables }: RecordedRequest,
  was: Answer | undefined,
  is: Answer | undefined,
): string =>
  [
    `${name} answers ${init.method ?? "GET"} ${url} at ${atMs} differently.`,
    `fields: ${JSON.stringify([...new Headers(init.headers)])}`,
    `body: ${init.body instanceof Uint8Array ? new TextDecoder("latin1").decode(init.body) : JSON.stringify(init.body)}`,
    `variables: ${JSON.stringify(variables)}`,
    `${previousVersion.name}: ${JSON.stringify(was, null, 1)}`,
    `${name}: ${JSON.stringify(is, null, 1)}`,
  ].join("\n");
