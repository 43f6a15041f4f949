/** Serves the configuration of a page on workerd, and sends the traffic that the page describes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { localVariables, type RecipeOrigin, startRecipeOrigin } from "../system/recipe-origin.ts";
import { bundle } from "../tools/workerd-process.ts";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { isConfiguration, isInvalid, readConfiguration } from "./configuration-blocks.ts";
import { readPage } from "./pages.ts";

export interface Sent {
  readonly method?: string;
  readonly body?: string;
  /** The client's address. */
  readonly address?: string;
  readonly token?: string;
  readonly apiKey?: string;
  /** The client's continent, as Cloudflare would state it. */
  readonly continent?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface CheckedDecision {
  readonly allowed: boolean;
  readonly violated: readonly string[];
  readonly limits: readonly {
    readonly name: string;
    readonly windowMs: number;
    readonly remaining: number;
    readonly resetAfterMs: number;
  }[];
}

export interface PageTraffic {
  readonly origin: () => RecipeOrigin;
  /** Serves the page's first valid configuration that contains these words, for the tests in the same `describe`. */
  readonly serve: (path: string, words?: string) => void;
  readonly url: () => string;
  /** Everything that the Worker has printed since the call of `serve`. */
  readonly printed: () => string;
  readonly send: (path: string, sent: Sent) => Promise<Answer>;
  readonly check: (method: string, path: string, body?: object) => Promise<Response>;
  readonly look: (policy: string, key: string) => Promise<CheckedDecision>;
  readonly remaining: (policy: string, key: string) => Promise<number | undefined>;
}

const checkToken = "the-token-of-check";

/** Call this once in a test file, outside of `describe`. */
export function pageTraffic(): PageTraffic {
  const folder = mkdtempSync(join(tmpdir(), "headgate-traffic-"));
  let origin: RecipeOrigin;
  let workerd: Workerd | null = null;
  let printed = "";
  let count = 0;

  beforeAll(async () => {
    bundle(folder);
    origin = await startRecipeOrigin();
  });

  afterAll(async () => {
    await workerd?.close();
    origin.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const serve = (path: string, words = ""): void => {
    beforeAll(async () => {
      await workerd?.close();
      printed = "";
      workerd = await startWorkerd(
        join(folder, String(count++)),
        {
          ...localVariables(configurationOf(path, words), origin),
          CHECK_TOKENS: checkToken,
        },
        { bundledIn: folder, cfField: "X-Cf", print: (text) => void (printed += text) },
      );
    });
  };

  const url = (): string => workerd?.url.origin ?? "";

  const send = async (path: string, { method, body, address, token, apiKey, continent }: Sent): Promise<Answer> => {
    const response = await fetch(url() + path, {
      method: method ?? "GET",
      headers: {
        ...(address !== undefined && { "CF-Connecting-IP": address }),
        ...(token !== undefined && { Authorization: `Bearer ${token}` }),
        ...(apiKey !== undefined && { "X-Api-Key": apiKey }),
        ...(continent !== undefined && { "X-Cf": JSON.stringify({ continent }) }),
      },
      ...(body !== undefined && { body }),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  const check = (method: string, path: string, body?: object): Promise<Response> =>
    fetch(`${url()}/check${path}`, {
      method,
      headers: { Authorization: `Bearer ${checkToken}`, "Content-Type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });

  const look = async (policy: string, key: string): Promise<CheckedDecision> =>
    (await check("GET", `?policy=${policy}&key=${key}`)).json<CheckedDecision>();

  return {
    origin: () => origin,
    serve,
    url,
    printed: () => printed,
    send,
    check,
    look,
    remaining: async (policy, key) => {
      const { limits } = await look(policy, key);
      // A look at a level of a tree also has the limits of its ancestors.
      return (limits.find(({ name }) => name === policy) ?? limits[0])?.remaining;
    },
  };
}

function configurationOf(path: string, words: string): Readonly<Record<string, unknown>> {
  const block = readPage(path).blocks.find(
    (each) => isConfiguration(each) && !isInvalid(each) && each.text.includes(words),
  );
  if (block === undefined) throw new Error(`no configuration with "${words}" in ${path}`);
  return readConfiguration(block).vars;
}

export const many = (count: number, act: () => Promise<Answer>): Promise<Answer[]> =>
  Promise.all(Array.from({ length: count }, act));

export const having = (answers: readonly Answer[], status: number, words = ""): Answer[] =>
  answers.filter((answer) => answer.status === status && answer.text.includes(words));
