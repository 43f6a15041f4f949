/** Compiles the field `match` into a function that reads only the parts of a request that have conditions. */
import { type Match, normalizedHost } from "./vars/index.ts";
import type { RequestAttributes } from "./request-attributes.ts";

type Test = (attributes: RequestAttributes) => boolean;

export interface Matcher {
  readonly matches: Test;
  /** All conditions except those on headers. */
  readonly matchesTarget: Test;
}

export function matcherOf(match: Match): Matcher {
  const { headers: wanted } = match;
  const target = [pathTest(match), methodTest(match), hostTest(match)].filter((test) => test !== null);
  const headers: Test[] = wanted === null ? [] : [(attributes) => matchesHeaders(wanted, attributes.headers)];
  return { matches: allOf([...target, ...headers]), matchesTarget: allOf(target) };
}

function allOf(tests: readonly Test[]): Test {
  const [only = () => true] = tests;
  return tests.length <= 1 ? only : (attributes) => tests.every((test) => test(attributes));
}

function pathTest({ path, pathMatching }: Match): Test | null {
  if (path === null) return null;
  const matches = pathMatching === "exact" ? path.matchesExactly : path.matches;
  return ({ target }) => matches(target.path);
}

/** A policy for GET also matches HEAD: otherwise a client could evade it with HEAD requests. */
function methodTest({ methods: written }: Match): Test | null {
  if (written === null) return null;
  const methods = written.has("GET") ? new Set([...written, "HEAD"]) : written;
  return ({ method }) => methods.has(method.toUpperCase());
}

const hostTest = ({ host }: Match): Test | null =>
  host === null ? null : ({ target }) => host.test(normalizedHost(target.hostname));

/** @param wanted by name, the value that a header must have, or true for any value */
export const matchesHeaders = (wanted: ReadonlyMap<string, string | true>, headers: Headers): boolean =>
  [...wanted].every(([name, value]) => (value === true ? headers.has(name) : headers.get(name) === value));
