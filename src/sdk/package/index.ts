/**
 * `headgate` without a subpath has no code: each part of the package has its own subpath. An import from `headgate`
 * fails with an error that says what to write.
 */

/** TypeScript quotes this property in the error about such an import. */
type Elsewhere<Subpath extends string> = {
  readonly [Hint in `import it from "headgate/${Subpath}"`]: never;
};

const subpaths = {
  client: ["createClient", "HeadgateError"],
  hono: ["admin", "rateLimit"],
  limiter: ["createLimiter"],
  object: ["ControlPlane", "RateLimiter"],
  strategies: ["createMeter", "createTree", "parseLimits"],
  test: ["createTestLimiter"],
};

// Cast because the type exists for its text only: no code sees the values.
const elsewhere = <Subpath extends keyof typeof subpaths>(_subpath: Subpath) =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  undefined as unknown as Elsewhere<Subpath>;

const [inClient, inHono, inObject] = [elsewhere("client"), elsewhere("hono"), elsewhere("object")];
const [inLimiter, inStrategies, inTest] = [elsewhere("limiter"), elsewhere("strategies"), elsewhere("test")];

// These exports exist only so that such imports load this module. Otherwise they would fail before the error below.
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
  inStrategies as createTree,
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
