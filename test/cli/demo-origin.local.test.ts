import { expect, it } from "vitest";
import { startDemoOrigin } from "../../src/cli/demo.ts";

it("the demo origin responds with the request that it received and with the first KB of its body", async () => {
  const origin = await startDemoOrigin();
  const ask = async (path: string, body?: string): Promise<unknown> => {
    const response = await fetch(`${origin.url}${path}`, body === undefined ? {} : { method: "POST", body });
    expect(response.headers.get("Content-Type")).toBe("application/json");
    return response.json();
  };
  const greeting = { origin: "Hello from the demo origin." };
  expect(await ask("/hello?a=1")).toEqual({
    ...greeting,
    served: 1,
    method: "GET",
    path: "/hello?a=1",
  });
  expect(await ask("/", "text")).toEqual({
    ...greeting,
    served: 2,
    method: "POST",
    path: "/",
    sizeBytes: 4,
    body: "text",
  });
  const long = "x".repeat(200_000);
  expect(await ask("/", long)).toMatchObject({ sizeBytes: 200_000, body: long.slice(0, 1_024) });
  expect(await ask("/", "x")).toMatchObject({ sizeBytes: 1, body: "x" });
  expect(await ask("/", long.slice(0, 1_024))).toMatchObject({ body: long.slice(0, 1_024) });
  origin.close();
  await expect(fetch(origin.url)).rejects.toThrow("fetch failed");
});
