/**
 * A Worker with the variables and keys of one test. Its responses below `CHECK_PATH` and of the admin API are compared
 * with the OpenAPI document.
 */
import { createExecutionContext, runInDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import worker, { type RateLimiter } from "../../src/index.ts";
import { type Clock, clockName, platformClock } from "../../src/limiter/clock.ts";
import { parseLimits } from "../../src/strategies/index.ts";
import { record } from "../differential/recorder.ts";
import { adminContract, expectContract } from "./contract.ts";

export const token = "the-tests-token";

type Init = RequestInit<IncomingRequestCfProperties>;

export interface Headgate {
  /** Sends a request. Returns before its response and the work after the response are complete. */
  readonly begin: (path: string, init?: Init) => StartedRequest;
  /** Sends a request, and waits for the work after its response. */
  readonly send: (path: string, init?: Init) => Promise<Response>;
  /** Sends a request to `/check` with the tests' token. */
  readonly check: (method: string, path: string, body?: unknown) => Promise<Response>;
}

interface StartedRequest {
  readonly response: Promise<Response>;
  /** Resolves when all work after the response is done. */
  readonly finished: () => Promise<void>;
}

/** @param variables are added to an origin, a check token and a random `KEY_SECRET`, which no other test shares */
export function headgate(variables: Record<string, unknown>): Headgate {
  const recorded = {
    ORIGIN: "https://origin.example",
    CHECK_TOKENS: token,
    KEY_SECRET: crypto.randomUUID(),
    ...variables,
  };
  const testEnv = { ...env, ...recorded };
  const checkPath = textIn(variables, "CHECK_PATH") ?? "/check";
  const adminPath = textIn(variables, "ADMIN_PATH") ?? "/_headgate";
  const hasAdmin = "ADMIN_TOKENS" in variables || "ACCESS_TEAM" in variables;
  const begin = (path: string, init?: Init): StartedRequest => {
    const ctx = createExecutionContext();
    const url = new URL(path, "https://headgate.example");
    const request = new Request<unknown, IncomingRequestCfProperties>(url, init);
    const notes = record({ variables: recorded, url: url.href, init: init ?? {} });
    const fetchAndCompare = async (): Promise<Response> => {
      const response = await worker.fetch(request, testEnv, ctx);
      await notes(response);
      const sent = { method: request.method, url, body: init?.body };
      await expectContract(checkPath, sent, response);
      if (hasAdmin) await expectContract(`${adminPath}/api`, sent, response, adminContract);
      return response;
    };
    return { response: fetchAndCompare(), finished: () => waitOnExecutionContext(ctx) };
  };
  const send = async (path: string, init?: Init): Promise<Response> => {
    const started = begin(path, init);
    const response = await started.response;
    await started.finished();
    return response;
  };
  const check = (method: string, path: string, body?: unknown): Promise<Response> =>
    send(path, {
      method,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return { begin, send, check };
}

function textIn(variables: Record<string, unknown>, name: string): string | null {
  const value = variables[name];
  return typeof value === "string" ? value : null;
}

/**
 * The objects of the tests, with a clock for the isolate on which some waits end at once.
 * @param isEnded whether a wait of this length ends at once; all other timers follow the real clock, such as deadlines
 * of calls
 * @returns the binding, and the waits that have ended, in milliseconds
 */
export function impatientObjects(
  isEnded: (waitMs: number) => boolean,
  end: (act: () => void) => void = queueMicrotask,
): { readonly RATE_LIMITER: object; readonly waitsMs: number[] } {
  const waitsMs: number[] = [];
  const after: Clock["after"] = (afterMs, act) => {
    if (!isEnded(afterMs)) return platformClock.after(afterMs, act);
    waitsMs.push(afterMs);
    end(act);
    return () => undefined;
  };
  const getByName: typeof env.RATE_LIMITER.getByName = (...call) => env.RATE_LIMITER.getByName(...call);
  return { RATE_LIMITER: { getByName, [clockName]: { ...platformClock, after } }, waitsMs };
}

/** The options of a request from this address. */
export const from = (address: string): { headers: Record<string, string> } => ({
  headers: { "CF-Connecting-IP": address },
});

export const statusOf = async (responding: Promise<Response>): Promise<number> => {
  const response = await responding;
  await response.body?.cancel();
  return response.status;
};

/**
 * Adds 999 reservations to a key that has one, so that it has the maximum.
 * @param first the response of `/check/reserve` for the first reservation
 * @param settings of the added reservations
 */
export async function fillReservations(
  first: Response,
  { policy = "filler", isDryRun = false, ttlMs = 86_400_000 } = {},
) {
  const { id } = await first.json<{ id: string }>();
  const [, partitionKey = ""] = id.split(".");
  const object = env.RATE_LIMITER.getByName(partitionKey);
  const charge = { policy, limits: parseLimits("1000000/hour"), cost: 1, isDryRun };
  // Runs inside the object, since 999 RPC calls take seconds.
  await runInDurableObject(object, (instance: RateLimiter) => {
    for (let index = 0; index < 999; index++) {
      const call = { key: partitionKey, charges: [charge], id: String(index), ttlMs, isDryRun };
      instance.reserve(call);
    }
  });
  return { object, partitionKey };
}
