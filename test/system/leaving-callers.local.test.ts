/** Workers that call the service and end before its answer, while other callers wait for the same object. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startWorkerd } from "../tools/workerd.ts";

const limits = [{ limit: 1_000_000, window: "1h", strategy: "fixed-window" }];
const policy = { key: "header:client", limits, timeout: "5s", onError: "closed", name: "p" };

/** Objects that reply after a few milliseconds, not always in the order of the calls. */
const entry = `
  import { RateLimiter as Own } from "./index.js";
  export * from "./index.js";
  export { default } from "./index.js";

  export class RateLimiter extends Own {
    async decide(texts, checks) {
      const replies = super.decide(texts, checks);
      await new Promise((resolve) => setTimeout(resolve, Math.random() < 0.1 ? 80 : 3));
      return replies;
    }
  }
`;

/** A Worker that makes many calls at once. It responds with the number of allowed calls, or fails, or ends early. */
const other = `
  export default {
    async fetch(request, { HEADGATE }) {
      const { ending, calls } = await request.json();
      const all = Array.from({ length: calls }, () => HEADGATE.check({ policy: "p", key: "a" }));
      const results = Promise.allSettled(all);
      if (ending === "failing") {
        await Promise.race(all);
        throw new Error("the caller fails");
      }
      if (ending === "leaving") {
        await new Promise((resolve) => setTimeout(resolve, 2));
        return Response.json(0);
      }
      const allowed = (await results).filter(({ value }) => value?.allowed === true);
      return Response.json(allowed.length);
    },
  };
`;

it("callers of the service that end early leave no other caller without a decision", async () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-leaving-"));
  let printed = "";
  const print = (text: string): void => void (printed += text);
  const workerd = await startWorkerd(folder, { POLICIES: [policy] }, { entry, other, print });
  const send = async (ending: string, calls: number): Promise<unknown> => {
    const body = JSON.stringify({ ending, calls });
    const response = await fetch(workerd.otherUrl, { method: "POST", body });
    return response.ok ? response.json() : null;
  };
  try {
    for (let round = 0; round < 15; round++) {
      // oxlint-disable-next-line no-await-in-loop
      const [many, few] = await Promise.all([
        send("patient", 300),
        send("patient", 20),
        send("failing", 150),
        send("leaving", 250),
        send("leaving", 50),
      ]);
      expect([many, few]).toEqual([300, 20]);
    }
    expect(printed).not.toContain("object-silent");
  } finally {
    await workerd.close();
    rmSync(folder, { recursive: true });
  }
});
