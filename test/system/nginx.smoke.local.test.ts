import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type BehindGateway,
  rateLimitFields,
  type ReceivedRequest,
  startBehindGateway,
  statusOf,
} from "./behind-gateway.ts";
import { type GatewayProcess, nginx } from "./gateway-process.ts";

describe.skipIf(!nginx.isInstalled)("nginx, skipped unless it is installed", () => {
  let behind: BehindGateway;
  let gateway: GatewayProcess;

  beforeAll(async () => {
    behind = await startBehindGateway([{ name: "each", key: ["ip", "path"] }]);
    gateway = await nginx.start(behind.upstreams);
  });
  afterAll(async () => {
    await gateway.close();
    await behind.close();
  });

  it("an allowed request passes nginx unchanged, and a denied request gets 429 and never reaches the origin", async () => {
    const url = `${gateway.url}/smoke?b=%2F`;
    const response = await fetch(url);
    expect([response.status, ...rateLimitFields(response.headers)]).toEqual([
      200,
      '"each";r=1;t=3600',
      '"each";q=2;w=3600',
      null,
    ]);
    const { request } = await response.json<ReceivedRequest>();
    expect(request).toBe("GET /smoke?b=%2F");
    expect([await statusOf(fetch(url)), await statusOf(fetch(url))]).toEqual([200, 429]);
    expect(behind.origin.requestCount("/smoke?b=%2F")).toBe(2);
  });
});
