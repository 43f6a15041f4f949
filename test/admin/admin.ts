/** Calls the admin API of a Worker with the tests' tokens. Each test has policies of its own. */
import { expect } from "vitest";
import { headgate, type Headgate } from "../http/harness.ts";

export const tokens = {
  all: "the-admin-token-of-alice",
  read: "the-admin-token-of-grafana",
  write: "the-admin-token-of-bot",
  reveal: "the-admin-token-of-dpo",
};

const ADMIN_TOKENS = [
  { token: tokens.all, name: "alice" },
  { token: tokens.read, name: "grafana", may: ["read"] },
  { token: tokens.write, name: "bot", may: ["write"] },
  { token: tokens.reveal, name: "dpo", may: ["reveal"] },
];

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The body as JSON, after a comparison with the OpenAPI document; null without a body. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

export interface Admin extends Headgate {
  /** The name of the first policy. */
  readonly policy: string;
  /** Calls a path below `/_headgate/api`. */
  readonly call: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Answer>;
}

let count = 0;

/** @param policy fields of the Worker's only policy, whose name is unique among the tests */
export function admin(policy: object = {}, variables: Record<string, unknown> = {}): Admin {
  const name = `admin-${++count}-${crypto.randomUUID().slice(0, 8)}`;
  const POLICIES = [{ name, key: "ip", limits: "5/hour", ...policy }];
  const gate = headgate({ POLICIES, ADMIN_TOKENS, ...variables });
  const call: Admin["call"] = async (method, path, body, headers = {}) => {
    const response = await gate.send(`/_headgate/api${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${tokens.all}`,
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = /[/+]json/.test(response.headers.get("Content-Type") ?? "");
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    return {
      status: response.status,
      headers: response.headers,
      body: isJson ? JSON.parse(text) : text === "" ? null : text,
    };
  };
  return { ...gate, call, policy: name };
}

/** The fields that a 422 names. */
export const fieldsOf = ({ status, body }: Answer): string[] => {
  expect(status).toBe(422);
  return body.errors.map(({ field }: { field: string }) => field);
};

export const ifMatch = (answer: Answer): Record<string, string> => ({
  "If-Match": answer.headers.get("ETag") ?? "",
});
