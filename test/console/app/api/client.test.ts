/** The console's client of the admin API without a browser: refused credentials, lost responses, and the clock. */
import { signal } from "@preact/signals";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { call, ConnectionLost, isConnected, read, refusal, token } from "../../../../src/console/app/api/client.ts";
import { TailConnection } from "../../../../src/console/app/live/tail.ts";
import { Polling, staleness } from "../../../../src/console/app/api/poll.ts";
import { changeBy, type RuleChange, Sender } from "../../../../src/console/app/api/rules.ts";
import { now } from "../../../../src/console/app/clock.ts";
import { findKey, keyName } from "../../../../src/console/app/keys/known-keys.ts";
import { followTokenLinks, session, signIn, signOut, startSession } from "../../../../src/console/app/shell/session.ts";

const operator = { name: "ops", via: "token", may: ["read"] };
const problem = (status: number, detail: string): Response => Response.json({ title: "", status, detail }, { status });

/** Answers the next calls in this order, and repeats the last answer for all further calls. */
function answers(...responses: (() => Response)[]) {
  const sent: Request[] = [];
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    sent.push(new Request(new URL(path, "https://admin.example/_headgate/"), init));
    return Promise.resolve((responses[sent.length - 1] ?? responses.at(-1))?.());
  });
  return sent;
}

/** The parts of a browser that a session and a poll use. */
function stubBrowser(hash: string, reload = (): void => undefined): Map<string, string> {
  const stored = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, text: string) => stored.set(name, text),
    removeItem: (name: string) => stored.delete(name),
  });
  vi.stubGlobal("location", { hash, pathname: "/_headgate/", search: "", reload });
  vi.stubGlobal("history", { replaceState: () => undefined });
  const page = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal("document", page);
  vi.stubGlobal("window", page);
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
  vi.stubGlobal("dispatchEvent", page.dispatchEvent.bind(page));
  return stored;
}

beforeEach(() => {
  session.value = { kind: "checking", token: null };
  token.value = null;
  refusal.value = null;
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("a session", () => {
  it("when the token in a link cannot be sent in a header, the console asks for a token and keeps a valid stored one", async () => {
    const stored = stubBrowser("#token=%E2%80%A6");
    stored.set("headgate-token", "good");
    answers(() => Response.json(operator));
    await startSession({ isPublic: false });
    expect(session.value).toEqual({ kind: "signed-out", problem: expect.stringMatching(/ASCII/) });
    expect(stored.get("headgate-token")).toBe("good");
  });

  it("a pasted token that cannot be sent in a header is refused with the reason", async () => {
    stubBrowser("");
    const sent = answers(() => Response.json(operator));
    await expect(signIn("tok“en")).rejects.toThrow(/ASCII/);
    expect(sent).toEqual([]);
  });

  it("a stored token that the Worker refuses is deleted, so that it is not sent again", async () => {
    const stored = stubBrowser("");
    stored.set("headgate-token", "former");
    answers(() => problem(401, "Unknown token."));
    await startSession({ isPublic: false });
    expect(session.value).toEqual({ kind: "signed-out", problem: "Unknown token." });
    expect(stored.size).toBe(0);
  });

  it("a refused token in a link does not replace a valid stored token", async () => {
    const stored = stubBrowser("#token=other");
    stored.set("headgate-token", "good");
    answers(() => problem(401, "Unknown token."));
    await startSession({ isPublic: false });
    expect(session.value).toEqual({ kind: "signed-out", problem: "Unknown token." });
    expect(stored.get("headgate-token")).toBe("good");
  });

  it.each([
    {
      answer: () => problem(401, "Unknown token."),
      stored: "good",
      loads: 0,
      reason: /^The link's token is not used\. Unknown token\. You are still ops\.$/,
    },
    { answer: () => Response.json(operator), stored: "other", loads: 1, reason: /^$/ },
  ])(
    "opening a link in a signed-in tab stores the token $stored and loads the page $loads times",
    async ({ answer, stored: expected, loads, reason: said }) => {
      let loaded = 0;
      const stored = stubBrowser("#token=good", () => (loaded += 1));
      const sent = answers(() => Response.json(operator), answer);
      await startSession({ isPublic: false });
      const reasons: string[] = [];
      followTokenLinks((reason) => reasons.push(reason));
      location.hash = "#token=other";
      dispatchEvent(new Event("hashchange"));
      await vi.waitFor(() => expect(sent).toHaveLength(2));
      await vi.waitFor(() => expect(loaded).toBe(loads));
      expect(sent[1]?.headers.get("Authorization")).toBe("Bearer other");
      expect(stored.get("headgate-token")).toBe(expected);
      expect(token.value).toBe("good");
      expect(refusal.value).toBeNull();
      expect(session.value.kind).toBe("signed-in");
      await vi.waitFor(() => expect(reasons.join()).toMatch(said));
    },
  );

  it("opening a public view without a token sends no request", async () => {
    stubBrowser("");
    const sent = answers(() => problem(401, "A token is missing."));
    await startSession({ isPublic: true });
    expect(session.value).toEqual({ kind: "visitor" });
    expect(sent).toEqual([]);
  });

  it("signing out deletes the plain keys that the tab has stored", async () => {
    stubBrowser("");
    session.value = { kind: "signed-in", operator: operator as never };
    answers(() => Response.json({ id: "0123456789" }));
    await findKey("api", ["ip"], { key: ["192.0.2.1"] });
    expect(keyName("api", "0123456789")).toBe("ip=192.0.2.1");
    signOut();
    expect(keyName("api", "0123456789")).toBe("01234567…");
  });
});

describe("the start of the page", () => {
  const html = (): Response => new Response("<!doctype html>", { headers: { "Content-Type": "text/html" } });

  it.each([
    ["a page of HTML", html],
    ["JSON without a value", () => Response.json(null)],
    ["nothing", () => new Response("")],
  ])("the console asks for a token and gives the reason when the response is %s", async (_, answer) => {
    stubBrowser("");
    answers(answer);
    await startSession({ isPublic: false });
    expect(session.value).toEqual({ kind: "signed-out", problem: expect.stringMatching(/JSON/) });
  });

  it("the sign-in page shows the reason when the Worker fails, and no reason when the Worker only asks for a token", async () => {
    stubBrowser("");
    answers(
      () => problem(502, "The control plane does not answer."),
      () => problem(401, "A token is missing."),
    );
    await startSession({ isPublic: false });
    expect(session.value).toEqual({
      kind: "signed-out",
      problem: "The control plane does not answer.",
    });
    await startSession({ isPublic: false });
    expect(session.value).toEqual({ kind: "signed-out", problem: null });
  });

  it("the sign-in page shows the reason when the connection is lost", async () => {
    stubBrowser("");
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
    await startSession({ isPublic: false });
    expect(session.value).toEqual({
      kind: "signed-out",
      problem: expect.stringMatching(/cannot be reached/),
    });
  });
});

describe("a call", () => {
  it("an error in JSON that does not come from the API is described by its status", async () => {
    answers(() => Response.json("bad", { status: 502 }));
    await expect(read("policies")).rejects.toThrow("The Worker answered with status 502.");
  });

  it("a change whose response comes from another server fails as a change that may have been made", async () => {
    answers(() => new Response("<!doctype html>"));
    await expect(call("POST", "rules", { body: {} })).rejects.toMatchObject({ status: 502 });
  });

  it("a response without content is a success", async () => {
    answers(() => new Response(null, { status: 204 }));
    expect(await read("rules/1")).toBeNull();
  });

  it("a truncated response counts as a lost connection, because its content is unknown", async () => {
    const body = (): ReadableStream =>
      new ReadableStream({ start: (controller) => controller.error(new TypeError("cut off")) });
    answers(() => new Response(body()));
    await expect(call("POST", "rules", { body: {} })).rejects.toThrow(ConnectionLost);
    expect(isConnected.value).toBe(false);
  });

  it("a read without an answer for eight seconds counts as a lost connection, and a change waits longer", async () => {
    vi.useFakeTimers();
    vi.stubGlobal("fetch", (_: string, { signal: abort }: { signal: AbortSignal }) => {
      return new Promise((_answer, fail) => {
        abort.addEventListener("abort", () => fail(abort.reason));
      });
    });
    const reading = read("policies");
    let isChanged = false;
    call("POST", "rules", { body: {} })
      .finally(() => (isChanged = true))
      .catch(() => {});
    await Promise.all([expect(reading).rejects.toThrow(ConnectionLost), vi.advanceTimersByTimeAsync(8_000)]);
    expect(isConnected.value).toBe(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(isChanged).toBe(false);
  });

  it("the redirect of an expired Cloudflare Access session counts as a refusal, not as a lost connection", async () => {
    const sent = answers(() => {
      const redirect = new Response(null);
      Object.defineProperties(redirect, {
        type: { value: "opaqueredirect" },
        status: { value: 0 },
        ok: { value: false },
      });
      return redirect;
    });
    await expect(read("policies")).rejects.toMatchObject({ status: 401 });
    expect(sent[0]?.redirect).toBe("manual");
    expect(refusal.value?.message).toMatch(/Cloudflare Access/);
    expect(isConnected.value).toBe(true);
  });

  it("the console uses the Worker's clock when the browser's clock is wrong", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.parse("2026-03-01T10:00:00Z") });
    const dated = (date: string) => () => Response.json({}, { headers: { Date: date } });
    answers(
      dated("Sun, 01 Mar 2026 10:00:01 GMT"),
      dated("Sun, 01 Mar 2026 09:45:00 GMT"),
      () => Response.json({}),
      dated("Sun, 01 Mar 2026 10:00:00 GMT"),
    );
    const clocks: string[] = [];
    for (let count = 0; count < 4; count++) {
      // oxlint-disable-next-line no-await-in-loop -- each answer changes the clock
      await read("policies");
      clocks.push(new Date(now()).toISOString().slice(11, 19));
    }
    expect(clocks).toEqual(["10:00:00", "09:45:00", "09:45:00", "10:00:00"]);
  });
});

it("a poll that stopped because credentials were refused continues when credentials are accepted again", async () => {
  stubBrowser("");
  const reads = signal(0);
  const polling = new Polling(async () => {
    reads.value += 1;
    return read("policies");
  }, 1);
  answers(
    () => problem(401, "Unknown token."),
    () => Response.json({ policies: [] }),
  );
  polling.start();
  await expect.poll(() => refusal.value).not.toBeNull();
  await read("operator");
  await expect.poll(() => polling.value.value).toEqual({ policies: [] });
  polling.stop();
});

it("a read that fails after a success marks the shown value as old, until a read succeeds or the value is no longer shown", async () => {
  stubBrowser("");
  let answer = (): Response => problem(503, "The control plane does not answer.");
  answers(() => answer());
  const polling = new Polling(() => read("policies"), 1);
  polling.start();
  await expect.poll(() => polling.problem.value).not.toBeNull();
  expect(staleness.value).toBeNull();
  answer = () => Response.json({ policies: [] });
  await expect.poll(() => polling.value.value).not.toBeNull();
  answer = () => new Response("<!doctype html>");
  await expect.poll(() => staleness.value?.message).toMatch(/another server/);
  answer = () => Response.json({ policies: [] });
  await expect.poll(() => staleness.value).toBeNull();
  answer = () => problem(503, "The control plane does not answer.");
  await expect.poll(() => staleness.value?.message).toMatch(/does not answer/);
  polling.stop();
  expect(staleness.value).toBeNull();
});

it("the live tail of a page that stays hidden is closed after a minute, and reconnects when the page is shown again", async () => {
  stubBrowser("");
  vi.useFakeTimers();
  vi.stubGlobal("document", Object.assign(document, { baseURI: "https://admin.example/" }));
  const sockets: EventTarget[] = [];
  let closed = 0;
  class Socket extends EventTarget {
    constructor() {
      super();
      sockets.push(this);
    }
    close(): void {
      closed += 1;
    }
    send(): void {
      queueMicrotask(() => this.dispatchEvent(new MessageEvent("message", { data: "pong" })));
    }
  }
  vi.stubGlobal("WebSocket", Socket);
  answers(() => Response.json({ ticket: "t" }));
  const show = (isShown: boolean): void => {
    Object.assign(document, { hidden: !isShown });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  const tail = new TailConnection(() => undefined);
  tail.connect();
  await vi.waitFor(() => expect(sockets).toHaveLength(1));
  sockets[0]?.dispatchEvent(new Event("open"));
  show(false);
  await vi.advanceTimersByTimeAsync(50_000);
  show(true);
  await vi.advanceTimersByTimeAsync(50_000);
  expect([sockets.length, closed]).toEqual([1, 0]);
  show(false);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect([sockets.length, closed]).toEqual([1, 1]);
  show(true);
  await vi.waitFor(() => expect(sockets).toHaveLength(2));
  tail.stop();
  show(false);
  show(true);
  await vi.advanceTimersByTimeAsync(100_000);
  expect(sockets).toHaveLength(2);
});

it("a rule whose creation failed in the control plane is sent again with the same idempotency key", async () => {
  stubBrowser("");
  const rule = { id: "r1", policy: "api" };
  const sent = answers(
    () => problem(503, "The control plane does not answer."),
    () => Response.json(rule, { status: 201 }),
  );
  const sender = new Sender<RuleChange>();
  const plan = { kind: "create", rule: { policy: "api", kind: "block", id: "k" } } as const;
  await expect(sender.send("typed", changeBy(plan))).rejects.toThrow(/does not answer/);
  expect(await sender.send("typed", changeBy(plan))).toEqual({ before: null, after: rule });
  const keys = sent.map(({ headers }) => headers.get("Idempotency-Key"));
  expect(keys[0]).not.toBeNull();
  expect(keys).toEqual([keys[0], keys[0]]);
});
