import { afterEach, describe, expect, it, vi } from "vitest";
import { from, type Headgate, headgate } from "./harness.ts";

const address = "203.0.113.7";
const visitor = from(address);
const slots = { limit: 3, window: "1m", strategy: "concurrency" };

afterEach(() => void vi.restoreAllMocks());

/** What is left of each limit of a policy. */
async function left({ check }: Headgate, policy = "default"): Promise<number[]> {
  const response = await check("GET", `/check?policy=${policy}&key=${address}`);
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limits.map(({ remaining }) => remaining);
}

/** The origin answers so, whatever it is asked. */
const originAnswers = (...answers: Response[]): ReturnType<typeof vi.spyOn> =>
  answers.reduce(
    (fetching, answer) => fetching.mockResolvedValueOnce(answer),
    vi.spyOn(globalThis, "fetch"),
  );

/** A response whose body comes when the test writes it. */
function written(init?: ResponseInit): { answer: Response; body: WritableStreamDefaultWriter } {
  const { readable, writable } = new IdentityTransformStream();
  return { answer: new Response(readable, init), body: writable.getWriter() };
}

const bytes = (size: number): Uint8Array => new Uint8Array(size).fill(120);

describe("a response's body", () => {
  it("is the very one that the origin's had, without a limit of concurrency", async () => {
    const { answer } = written();
    const { body } = answer;
    originAnswers(answer);
    const { begin } = headgate({
      POLICIES: [{ name: "p", limits: "5/minute", count: { status: [401] } }],
    });
    expect((await begin("/", visitor).response).body).toBe(body);
  });

  it("of up to 64 KiB holds its slot no longer than the origin takes, whoever reads it and when", async () => {
    const own = headgate({ LIMITS: slots });
    const { answer, body } = written();
    originAnswers(answer);
    const { response, over } = own.begin("/", visitor);
    const unread = await response;
    await body.write(bytes(40_000));
    await body.write(bytes(25_536));
    expect(await left(own)).toEqual([2]);
    await body.close();
    await over();
    expect(await left(own)).toEqual([3]);
    expect((await unread.arrayBuffer()).byteLength).toBe(65_536);
  });

  it("of more holds its slot until it has been read", async () => {
    const own = headgate({ LIMITS: slots });
    originAnswers(new Response(bytes(1_000_000)));
    const { response, over } = own.begin("/", visitor);
    const unread = await response;
    expect(await left(own)).toEqual([2]);
    expect((await unread.arrayBuffer()).byteLength).toBe(1_000_000);
    await over();
    expect(await left(own)).toEqual([3]);
  });

  it.each([
    ["of a length that is told", { headers: { "Content-Length": "100" } }],
    ["in chunks", {}],
  ])("%s that nobody wants any more frees its slot, and the origin is told", async (_, init) => {
    const own = headgate({ LIMITS: slots });
    const { answer, body } = written(init);
    originAnswers(answer);
    const { response, over } = own.begin("/", visitor);
    const reader = (await response).body?.getReader();
    await Promise.all([body.write(bytes(10)), reader?.read()]);
    expect(await left(own)).toEqual([2]);
    await reader?.cancel("enough");
    await over();
    expect(await left(own)).toEqual([3]);
    await expect(body.write(bytes(10))).rejects.toThrow();
  });

  it("is taken from the origin in large pieces", async () => {
    const sizes: (number | undefined)[] = [];
    const body = new ReadableStream({
      type: "bytes",
      pull(controller) {
        const { byobRequest } = controller;
        sizes.push(byobRequest?.view?.byteLength);
        if (sizes.length === 2) {
          controller.close();
          byobRequest?.respond(0);
        } else byobRequest?.respond(10);
      },
    });
    originAnswers(new Response(body));
    const { send } = headgate({ LIMITS: slots });
    expect((await (await send("/", visitor)).arrayBuffer()).byteLength).toBe(10);
    expect(sizes).toEqual([65_536, 65_536]);
  });
});
