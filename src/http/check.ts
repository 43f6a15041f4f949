/** `/check`: decisions for callers who enforce limits themselves. A denial is a successful check. */
import type { Context, Next } from "hono";
import { bodyLimit } from "hono/body-limit";
import { Hono } from "hono/tiny";
import { partName, type Policy } from "../config/index.ts";
import type { Outcome, Spend } from "../limiter/outcome.ts";
import { keyOfCaller } from "../policies/key.ts";
import { requireToken } from "./auth.ts";
import { type AdhocCheck, type Check, readForget, readLook, readSpend } from "./check-input.ts";
import type { Gate } from "./gate.ts";
import { rateLimitFields, retryAfterField, violatedLimits } from "./headers.ts";
import { type Failure, problemResponse } from "./problems.ts";

const bodyLimitBytes = 16 * 1024;

const sized = bodyLimit({
  maxSize: bodyLimitBytes,
  onError: () => problemResponse({ kind: "body-too-large", limitBytes: bodyLimitBytes }),
});

/** The routes at and below `CHECK_PATH`. Health is open to all; everything else needs a token. */
export function checkRoutes(gate: Gate): Hono {
  const { checkTokens, limiter } = gate;
  const routes = new Hono();
  const authorized = requireToken(checkTokens);

  routes.get("/health", (c) => c.json({ status: "ok" }, 200, { "Cache-Control": "no-store" }));
  routes.all("/health", () =>
    problemResponse({ kind: "method-not-allowed", allowed: ["GET", "HEAD"] }),
  );

  routes.get("/", authorized, refuseMisencoded, async (c) => {
    const check = readLook(c.req.queries());
    if ("kind" in check) return problemResponse(check);
    const spend = await spendOf(gate, check);
    return "kind" in spend ? problemResponse(spend) : answer(c, check, await limiter.look(spend));
  });

  routes.post("/", authorized, sized, async (c) => {
    const check = await readSpend(c.req.raw, c.req.queries());
    if ("kind" in check) return problemResponse(check);
    const spend = await spendOf(gate, check);
    if ("kind" in spend) return problemResponse(spend);
    const [outcome] =
      check.cost === 0
        ? [await limiter.look(spend)]
        : await limiter.admit([spend], (work) => c.executionCtx.waitUntil(work));
    return outcome === undefined
      ? problemResponse({ kind: "internal" })
      : answer(c, check, outcome);
  });

  routes.delete("/", authorized, refuseMisencoded, async (c) => {
    const check = readForget(c.req.queries());
    if ("kind" in check) return problemResponse(check);
    const spend = await spendOf(gate, check);
    if ("kind" in spend) return problemResponse(spend);
    const isForgotten = await limiter.forget(spend.policy, spend.partitionKey);
    return isForgotten ? c.body(null, 204) : problemResponse({ kind: "undecided" });
  });

  routes.all("/", () =>
    problemResponse({ kind: "method-not-allowed", allowed: ["GET", "HEAD", "POST", "DELETE"] }),
  );
  routes.all("/*", () => problemResponse({ kind: "unknown-path" }));
  return routes;
}

/** The spend that a check asks for, or why it cannot be made. */
async function spendOf(
  { policies, partitions }: Gate,
  check: Check | AdhocCheck,
): Promise<Spend | Failure> {
  if ("adhoc" in check) {
    const { adhoc, key, cost } = check;
    return { policy: adhoc, partitionKey: await partitions.adhocPartitionKey(key), cost };
  }
  const policy = policyOf(policies, check.policy);
  if ("kind" in policy) return policy;
  const values = keyOfCaller(policy.key, check.key);
  if (values === null) return invalidKey(policy);
  const partitionKey = await partitions.partitionKey(policy.key, values);
  return { policy, partitionKey, cost: check.cost };
}

/** What stands for no text is left as it is by the query's reader: different queries would name one key. */
async function refuseMisencoded(c: Context, next: Next): Promise<Response | undefined> {
  try {
    decodeURIComponent(c.req.url);
  } catch {
    return problemResponse({ kind: "query-malformed" });
  }
  await next();
  return undefined;
}

function policyOf(policies: readonly Policy[], name: string | undefined): Policy | Failure {
  const [only, ...others] = policies;
  if (name === undefined && only !== undefined && others.length === 0) return only;
  if (name === undefined) {
    const accepted = `one of ${policies.map((policy) => `"${policy.name}"`).join(", ")}`;
    return { kind: "fields-invalid", errors: [{ field: "policy", accepted }] };
  }
  return policies.find((policy) => policy.name === name) ?? { kind: "unknown-policy" };
}

function invalidKey(policy: Policy): Failure {
  const parts = policy.key.map(partName);
  const texts = parts.length === 1 ? "a text" : `a list of ${parts.length} texts`;
  const addresses = parts.includes("ip") ? "; ip is an IPv4 or IPv6 address" : "";
  const accepted = `${texts} for ${parts.join(", ")}${addresses}`;
  return { kind: "fields-invalid", errors: [{ field: "key", accepted }] };
}

/** 200 with the decision, allowed or not; a denial answers `deny` instead where the caller looks only at the status. */
function answer(c: Context, check: Check, outcome: Outcome): Response {
  // `open` and `closed` are for the proxy: a caller without a decision has a failure mode of its own.
  if (!("decision" in outcome)) return problemResponse({ kind: "undecided" });
  const { kind, policy, decision } = outcome;
  const headers =
    kind === "decided" ? rateLimitFields(policy.limits, [decision]) : retryAfterField([decision]);
  const body = { ...decision, policy: policy.name, violated: violatedLimits([decision]), headers };
  const isRefused = check.deny !== undefined && !decision.allowed;
  const noStore = { "Cache-Control": "no-store" };
  return isRefused
    ? c.json(body, check.deny, { ...noStore, ...headers })
    : c.json(body, 200, noStore);
}
