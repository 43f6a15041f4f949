/**
 * Concurrent calls of the service, each in its own request context, on workerd itself. The vitest plugin disables the
 * platform feature with which calls of several contexts can be joined.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startWorkerd } from "../tools/workerd.ts";

const limits = [{ limit: 10, window: "1h", strategy: "fixed-window" }];
const policy = { name: "p", key: "header:client", limits, timeout: "5s", onError: "closed" };

/** Calls the service from the Worker, or from a Durable Object. */
const entry = `
  import headgate, { RateLimiter as Own } from "./index.js";
  export * from "./index.js";

  const allowedOf = async (service, key) => {
    const calls = Array.from({ length: 30 }, () => service.check({ policy: "p", key }));
    const answers = await Promise.all(calls);
    return answers.filter(({ allowed }) => allowed).length;
  };

  export class RateLimiter extends Own {
    callService(key) {
      return allowedOf(this.ctx.exports.Headgate, key);
    }
  }

  export default {
    async fetch(request, env, ctx) {
      const { pathname } = new URL(request.url);
      if (pathname === "/worker") return Response.json(await allowedOf(ctx.exports.Headgate, "w"));
      if (pathname !== "/object") return headgate.fetch(request, env, ctx);
      return Response.json(await env.RATE_LIMITER.getByName("caller").callService("o"));
    },
  };
`;

const folder = mkdtempSync(join(tmpdir(), "headgate-concurrent-"));
let workerd: Awaited<ReturnType<typeof startWorkerd>>;
beforeAll(async () => {
  workerd = await startWorkerd(folder, { POLICIES: [policy] }, { entry });
});
afterAll(async () => {
  await workerd.close();
  rmSync(folder, { recursive: true });
});

it.for(["worker", "object"])(
  "concurrent calls of the service are allowed up to the limit when their caller is one %s",
  async (caller) => {
    const response = await fetch(new URL(`/${caller}`, workerd.url));
    expect(await response.json()).toBe(10);
  },
);
