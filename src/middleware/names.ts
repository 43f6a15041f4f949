/**
 * The names of limiters. A limiter without a name gets one when it is constructed, so the order of requests has no
 * effect on it. The name depends on the limiter's options and on the limiters before it in the same load. A load
 * consists of the limiters that are constructed until one of them handles a request. An app that is constructed again
 * later, such as for each test, therefore has the same names again.
 */
import { type ConfigProblem, ConfigProblems } from "../config/index.ts";
import type { StatedPolicy } from "./read-options.ts";

/** The policies of the current load by name. */
let load = new Map<string, StatedPolicy>();
/** The names of the current load, by the place in the code that constructed their limiters. */
let places = new Map<string, Place>();
let isOver = false;
/** The policies that were constructed when the Worker started, by name. Empty in other runtimes. */
const started = new Map<string, StatedPolicy>();

interface Place {
  readonly names: string[];
  /** The run of code (see `presentRun`) that last used the names, and how many names it has used. */
  run: object;
  used: number;
}

/**
 * The policies that the Worker has constructed so far. With them, the control plane knows the policies of all routes
 * from the first request on.
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

/**
 * Whether two policies with one name may share counters: either one was constructed again, or both state the name and
 * equal options.
 */
export const isSame = (a: StatedPolicy, b: StatedPolicy): boolean =>
  a.text === b.text && a.place === b.place;

export function nameTaken({ name, place }: StatedPolicy): ConfigProblem {
  const problem = { variable: "rateLimit", field: "name" };
  if (place === null) {
    const why =
      "because another rateLimit, with other options or without a name, already has this name";
    const accepted = `a name of its own such as name: "${name}-2", ${why}`;
    return { ...problem, value: name, accepted };
  }
  const why = `because another rateLimit without a name, constructed before the first request, is called "${name}"`;
  return { ...problem, value: undefined, accepted: `a name such as name: "login", ${why}` };
}

/**
 * The next name of a place in the code. When the same code runs again, such as for another request, the names repeat.
 */
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

/** The first free name: `default`, then `default-` and a hash of the options, then the same with a number from 2 on. */
function freeName(text: string): string {
  if (!load.has("default")) return "default";
  const base = `default-${hashOf(text)}`;
  let name = base;
  for (let number = 2; load.has(name); number++) name = `${base}-${number}`;
  return name;
}

/**
 * Refuses limiters without a name in modules that are loaded for a request, because their names would depend on the
 * order of requests. They are accepted if no limiter without a name was constructed at the start.
 */
function refuseLate(): void {
  if ([...started.values()].every(({ place }) => place === null)) return;
  const accepted =
    'a name such as name: "login", because this rateLimit is constructed for a request, and another one without a name when the Worker started';
  throw new ConfigProblems([{ variable: "rateLimit", field: "name", value: undefined, accepted }]);
}

/** Whether the Worker is starting. Workers have no random values then; other runtimes always have them. */
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

/** An object that is the same for all code that runs without interruption, until the next microtask. */
function presentRun(): object {
  if (isRunning) return run;
  run = {};
  isRunning = true;
  void Promise.resolve().then(() => (isRunning = false));
  return run;
}

/**
 * The calls that led to the construction of a limiter, the nearest first. Leaves out asynchronous callers and calls of
 * Node.js. Empty if the runtime does not report calls.
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
