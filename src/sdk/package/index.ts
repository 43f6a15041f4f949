/** `headgate` alone has no code: each part of the package has a subpath. Imports from it fail with what to write. */

/** TypeScript quotes the property wherever such an import is used. */
type Elsewhere<Subpath extends string> = {
  readonly [Hint in `import it from "headgate/${Subpath}"`]: never;
};

const subpaths = {
  client: ["createClient", "HeadgateError"],
  hono: ["admin", "rateLimit"],
  limiter: ["createLimiter"],
  object: ["ControlPlane", "RateLimiter"],
  strategies: ["createMeter", "parseLimits"],
  test: ["createTestLimiter"],
};

// Cast because the type exists for its text only: no code sees the values.
const elsewhere = <Subpath extends keyof typeof subpaths>(_subpath: Subpath) =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  undefined as unknown as Elsewhere<Subpath>;

const [inClient, inHono, inObject] = [elsewhere("client"), elsewhere("hono"), elsewhere("object")];
const [inLimiter, inStrategies, inTest] = [elsewhere("limiter"), elsewhere("strategies"), elsewhere("test")];

// Without these names, imports of them would fail before the error below can say what to write.
export {
  inClient as createClient,
  inClient as HeadgateError,
  inHono as admin,
  inHono as ConfigProblems,
  inHono as default,
  inHono as describeProblem,
  inHono as rateLimit,
  inLimiter as createLimiter,
  inObject as ControlPlane,
  inObject as RateLimiter,
  inStrategies as createMeter,
  inStrategies as defaultStrategy,
  inStrategies as formatDuration,
  inStrategies as parseDuration,
  inStrategies as parseLimits,
  inStrategies as readLimits,
  inStrategies as strategyNames,
  inTest as createTestLimiter,
};

const hints = Object.entries(subpaths).map(([subpath, names]) => `${names.join(" and ")} from "headgate/${subpath}"`);
throw new Error(`"headgate" has no exports of its own: import ${hints.join(", ")}`);
