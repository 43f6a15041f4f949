/**
 * A Headgate of a test's own: its variables, and keys that no other test can meet. Whatever it answers below its
 * `CHECK_PATH` is compared with the OpenAPI document.
 */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import worker from "../../src/index.ts";
import { keepsContract } from "./contract.ts";

export const token = "the-tests-token";

type Init = RequestInit<IncomingRequestCfProperties>;

export interface Headgate {
  /** Sends a request whose answer is not the end of it. */
  readonly begin: (path: string, init?: Init) => Begun;
  /** Sends a request to the proxy, or to any other path. */
  readonly send: (path: string, init?: Init) => Promise<Response>;
  /** Sends a request to `/check` with the tests' token. */
  readonly check: (method: string, path: string, body?: unknown) => Promise<Response>;
}

interface Begun {
  readonly response: Promise<Response>;
  /** Resolves when nothing goes on any more after the answer. */
  readonly over: () => Promise<void>;
}

/** @param variables beside an origin, a bearer token and a secret that makes all keys the test's own */
export function headgate(variables: Record<string, unknown>): Headgate {
  const own = {
    ...env,
    ORIGIN: "https://origin.example",
    CHECK_TOKENS: token,
    KEY_SECRET: crypto.randomUUID(),
    ...variables,
  };
  const written = variables["CHECK_PATH"];
  const checkPath = typeof written === "string" ? written : "/check";
  const begin = (path: string, init?: Init): Begun => {
    const ctx = createExecutionContext();
    const url = new URL(path, "https://headgate.example");
    const request = new Request<unknown, IncomingRequestCfProperties>(url, init);
    const answered = async (): Promise<Response> => {
      const answer = await worker.fetch(request, own, ctx);
      await keepsContract(checkPath, { method: request.method, url, body: init?.body }, answer);
      return answer;
    };
    return { response: answered(), over: () => waitOnExecutionContext(ctx) };
  };
  const send = async (path: string, init?: Init): Promise<Response> => {
    const { response, over } = begin(path, init);
    const answer = await response;
    await over();
    return answer;
  };
  const check = (method: string, path: string, body?: unknown): Promise<Response> =>
    send(path, {
      method,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return { begin, send, check };
}

/** A request's headers when it comes from this address. */
export const from = (address: string): { headers: Record<string, string> } => ({
  headers: { "CF-Connecting-IP": address },
});

export const statusOf = async (answer: Promise<Response>): Promise<number> => {
  const response = await answer;
  await response.body?.cancel();
  return response.status;
};
