/** Plain keys in the lists of the console, without a browser. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { OperatorView } from "../../../../src/admin/wire.ts";
import {
  findKey,
  isLocalHost,
  isUnrecorded,
  keyName,
  revealKey,
  showPlainKeys,
} from "../../../../src/console/app/keys/known-keys.ts";
import { session } from "../../../../src/console/app/shell/session.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("plain keys", () => {
  const operator: OperatorView = { name: "ops", via: "token", may: ["read", "reveal"] };

  it.each([
    ["localhost", true],
    ["admin.localhost", true],
    ["127.0.0.1", true],
    ["[::1]", true],
    ["admin.example.com", false],
    ["localhost.example.com", false],
    ["notlocalhost", false],
    ["127.0.0.1.example.com", false],
  ])("on the host %s, lists show plain keys without a choice of the operator: %j", (host, isShown) => {
    expect(isLocalHost(host)).toBe(isShown);
  });

  it("one call reveals all keys that a view shows, and a key that is not known is asked for again after ten seconds", async () => {
    vi.useFakeTimers();
    vi.stubGlobal("sessionStorage", { setItem: () => undefined });
    const asked: unknown[] = [];
    vi.stubGlobal("fetch", (_path: string, { body }: { readonly body: string }) => {
      asked.push(JSON.parse(body));
      const keys = [
        { id: "aaaaaaaaaaaa", key: "ip=192.0.2.1" },
        { id: "bbbbbbbbbbbb", key: null },
      ];
      return Promise.resolve(Response.json({ policy: "api", keys }));
    });
    session.value = { kind: "signed-in", operator };
    showPlainKeys(true);
    const names = (): string[] => ["aaaaaaaaaaaa", "bbbbbbbbbbbb"].map((id) => keyName("api", id));
    expect(names()).toEqual(["aaaaaaaa…", "bbbbbbbb…"]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(names()).toEqual(["ip=192.0.2.1", "bbbbbbbb…"]);
    await vi.advanceTimersByTimeAsync(8_000);
    expect(names()).toEqual(["ip=192.0.2.1", "bbbbbbbb…"]);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(2_000);
    names();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked).toEqual([
      { policy: "api", ids: ["aaaaaaaaaaaa", "bbbbbbbbbbbb"] },
      { policy: "api", ids: ["bbbbbbbbbbbb"] },
    ]);
    showPlainKeys(false);
    expect(names()).toEqual(["aaaaaaaa…", "bbbbbbbb…"]);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(asked).toHaveLength(2);
  });

  it("a key that an operator types is named as its requests spell it, or as typed without such a spelling", async () => {
    const answers = [{ id: "cccccccccccc", key: "ip=2001:db8:bad:0::/64" }, { id: "dddddddddddd" }];
    vi.stubGlobal("fetch", () => Promise.resolve(Response.json(answers.shift())));
    await findKey("api", ["ip"], { key: ["2001:db8:bad::7"] });
    await findKey("api", ["ip"], { key: ["192.0.2.4"] });
    expect(["cccccccccccc", "dddddddddddd"].map((id) => keyName("api", id))).toEqual([
      "ip=2001:db8:bad:0::/64",
      "ip=192.0.2.4",
    ]);
  });

  it("revealing a key without a recorded plain key says so, until one is recorded", async () => {
    const id = "eeeeeeeeeeee";
    const answers = [null, "ip=192.0.2.5"];
    vi.stubGlobal("fetch", () =>
      Promise.resolve(Response.json({ policy: "api", keys: [{ id, key: answers.shift() }] })),
    );
    await revealKey("api", id);
    expect([isUnrecorded("api", id), keyName("api", id)]).toEqual([true, "eeeeeeee…"]);
    await revealKey("api", id);
    expect([isUnrecorded("api", id), keyName("api", id)]).toEqual([false, "ip=192.0.2.5"]);
  });
});
