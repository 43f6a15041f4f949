/**
 * The names of limiters. A limiter without a name gets one when it is constructed, from its options and its place among the
 * others of its load: the order of requests has no effect on it. A load consists of the limiters that are constructed until
 * one of them handles a request. An app that is constructed again later, such as for each test, has the same names again.
 */
import { type ConfigProblem, ConfigProblems } from "../config/index.ts";
import type { StatedPolicy } from "./read-options.ts";

/** The policies of the present load by name. */
let load = new Map<string, StatedPolicy>();
/** The names that each place in the code has given in the present load. */
let places = new Map<string, Place>();
let isOver = false;
/** The policies that were constructed when the Worker started, by name. Empty in other runtimes. */
const started = new Map<string, StatedPolicy>();

interface Place {
  readonly names: string[];
  /** The run of code that has last used the names, and how many of them. */
  run: object;
  used: number;
}

/**
 * The policies of the Worker, as far as they are constructed: the control plane knows them from the first request on, whichever
 * route receives it.
 */
export const constructedPolicies = (): ReadonlyMap<string, StatedPolicy> =>
  new Map([...started, ...load]);

/** Called when a limiter handles a request. */
export function endLoad(): void {
  isOver = true;
}

/**
 * Gives a name to a policy without one, and refuses a name that another policy of the load has.
 * @param construct the function that the app calls to construct the limiter
 * @throws ConfigProblems
 */
export function withNames(
  policies: readonly StatedPolicy[],
  construct: (...options: never) => unknown,
): readonly StatedPolicy[] {
  if (isOver) {
    load = new Map();
    places = new Map();
    isOver = false;
  }
  const stack = stackAbove(construct);
  const isAtStart = isStarting();
  const named = policies.map((policy) => {
    if (policy.place === null) return policy;
    if (!isAtStart) refuseLate();
    const name = nameAt(stack, policy.text);
    return { ...policy, name, written: { ...policy.written, name }, place: lineOf(stack) };
  });
  const taken = named.filter((policy) => {
    const known = load.get(policy.name) ?? started.get(policy.name);
    return policy.place === null && known !== undefined && !isSame(policy, known);
  });
  if (taken.length > 0) throw new ConfigProblems(taken.map(nameTaken));
  for (const policy of named) {
    load.set(policy.name, policy);
    if (isAtStart) started.set(policy.name, policy);
  }
  return named;
}

/** Whether two policies with one name are the same one, constructed again, or share the name on purpose. */
export const isSame = (a: StatedPolicy, b: StatedPolicy): boolean =>
  a.text === b.text && a.place === b.place;

export function nameTaken({ name, place }: StatedPolicy): ConfigProblem {
  const problem = { variable: "rateLimit", field: "name" };
  if (place === null) {
    const why =
      "because another rateLimit of this Worker, with other options or without a name, is called so";
    const accepted = `a name of its own such as name: "${name}-2", ${why}`;
    return { ...problem, value: name, accepted };
  }
  const why = `because another rateLimit without a name, constructed before the first request, is called "${name}"`;
  return { ...problem, value: undefined, accepted: `a name such as name: "login", ${why}` };
}

/** The next name of a place. Code that runs again, such as for another request, gives the same names again. */
function nameAt(stack: string, text: string): string {
  const run = presentRun();
  const key = `${text}\n${stack}`;
  const place = places.get(key) ?? { names: [], run, used: 0 };
  places.set(key, place);
  if (place.run !== run) Object.assign(place, { run, used: 0 });
  const name = place.names[place.used] ?? freeName(text);
  place.names[place.used] = name;
  place.used += 1;
  return name;
}

/** The first policy of a load is `default`. Others are named by the hash of their options, and a number from the second equal one. */
function freeName(text: string): string {
  if (!load.has("default")) return "default";
  const base = `default-${hashOf(text)}`;
  let name = base;
  for (let number = 2; load.has(name); number++) name = `${base}-${number}`;
  return name;
}

/**
 * A module that is loaded with a request is loaded before or after other requests, which the names would depend on. Only
 * apps that are constructed as a whole while requests are handled need no names.
 */
function refuseLate(): void {
  if ([...started.values()].every(({ place }) => place === null)) return;
  const accepted =
    'a name such as name: "login", because this rateLimit is constructed for a request, and another one without a name when the Worker started';
  throw new ConfigProblems([{ variable: "rateLimit", field: "name", value: undefined, accepted }]);
}

/** Whether the Worker is starting. The platform then refuses random values; other runtimes never do. */
function isStarting(): boolean {
  try {
    crypto.randomUUID();
    return false;
  } catch {
    return true;
  }
}

let run: object = {};
let isRunning = false;

/** Identifies the code that runs without interruption. */
function presentRun(): object {
  if (isRunning) return run;
  run = {};
  isRunning = true;
  void Promise.resolve().then(() => (isRunning = false));
  return run;
}

/**
 * The calls that led to the construction of a limiter, the nearest first, without those that wait for them and those of Node.js. Empty where the
 * runtime does not report them.
 */
function stackAbove(construct: (...options: never) => unknown): string {
  const holder: { readonly stack?: string } = {};
  const capture: unknown = Reflect.get(Error, "captureStackTrace");
  if (typeof capture === "function") Reflect.apply(capture, Error, [holder, construct]);
  const [, ...calls] = (holder.stack ?? "").split("\n");
  return calls.filter((call) => !/ async |\bnode:/.test(call)).join("\n");
}

/** The nearest call, without the version of a reloaded module. */
const lineOf = (stack: string): string => (stack.split("\n")[0] ?? "").replace(/\?[^:)]*/, "");

/** FNV-1a, 32 bits. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}
