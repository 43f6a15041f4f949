/** Scenarios of policies that do more than count one key: several policies, bans, dry runs, slots and queues. */
import { anyCase, byHeader, nameOf, secretTag, drawAddress } from "./people.ts";
import { allOf, charge, longWindow, type Scenario } from "./scenarios.ts";

const few = 8;
const fixed = (limit: number): object => ({ limit, window: longWindow, strategy: "fixed-window" });
const sharded = { objects: "sharded", shards: 4 };

/** One key with two policies and three limits, which one call decides. */
const several: Scenario = {
  name: "several",
  policies: [
    {
      name: "several-a",
      match: allOf("several"),
      key: "header:X-Key",
      limits: [
        { ...fixed(14), name: "several-a.fixed" },
        { limit: 10, window: "50 days", strategy: "sliding-log", name: "several-a.log" },
      ],
      ...sharded,
    },
    {
      name: "several-b",
      match: allOf("several"),
      key: "header:x-key",
      cost: 2,
      limits: fixed(18),
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const quotas = [
      { name: "several-a.fixed", limit: 14 },
      { name: "several-a.log", limit: 10 },
    ];
    return {
      lines,
      charges: [charge("several-a", key, 0, { quotas }), charge("several-b", key, 18, { cost: 2, finalCost: 2 })],
    };
  },
};

/** Three keys are decided one after the other. The first keys are refunded when a later key denies. */
const chain: Scenario = {
  name: "chain",
  policies: [
    { name: "chain-ip", match: allOf("chain"), limits: fixed(12), ...sharded },
    {
      name: "chain-key",
      match: allOf("chain"),
      key: "header:X-Key",
      limits: { limit: few, window: longWindow, strategy: "token-bucket" },
      ...sharded,
    },
    {
      name: "chain-group",
      match: allOf("chain"),
      key: "query:group",
      cost: { from: "response-header:X-Spent", reserve: 2, max: 4 },
      limits: { limit: 30, window: longWindow, strategy: "sliding-log" },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key: address, text } = drawAddress(draw, 64);
    const { key, lines } = byHeader(draw, "X-Key");
    const group = nameOf(draw, 2);
    const isPassing = true;
    const named = address === null ? null : [text];
    const finalCost = draw.below(5);
    return {
      lines: [`CF-Connecting-IP: ${text}`, ...lines],
      query: [`group=${group}`],
      ask: { fields: [["X-Spent", String(finalCost)]] },
      charges: [
        charge("chain-ip", address, 12, { named, isPassing }),
        charge("chain-key", key, few, {
          quotas: [{ name: "chain-key", limit: few, isForgetful: true }],
          isPassing,
        }),
        charge("chain-group", group, 30, { cost: 2, finalCost, isPassing }),
      ],
    };
  },
};

const matched: Scenario = {
  name: "matched",
  policies: [
    {
      name: "matched",
      match: {
        methods: ["GET", "POST"],
        path: "/matched/:id/*",
        host: "*.matched.example",
        header: { "X-Plan": "free", "X-Beta": true },
      },
      key: "header:X-Key",
      limits: fixed(few),
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const missed = draw.below(10);
    const charges = missed < 5 ? [] : [charge("matched", key, few)];
    return {
      method: missed === 0 ? draw.one(["PUT", "DELETE", "OPTIONS"]) : draw.one(["GET", "HEAD", "POST"]),
      path: missed === 1 ? [] : [`i-${secretTag}`, "a"],
      host: missed === 2 ? "matched.example" : `${anyCase(draw, "a.b.matched.example")}${draw.one(["", ".", ":1"])}`,
      lines: [
        ...lines,
        ...(missed === 3 ? ["X-Plan: Free"] : [`${anyCase(draw, "X-Plan")}: free `]),
        ...(missed === 4 ? [] : [`X-Beta: ${draw.one(["", "0", "yes"])}`]),
      ],
      charges,
    };
  },
};

const answering: Scenario = {
  name: "answering",
  policies: [
    {
      name: "answering",
      match: allOf("answering"),
      key: "header:X-Key",
      limits: fixed(few),
      onDeny: { status: 418, body: '{"no":"tea"}', contentType: "application/json" },
      ...sharded,
    },
  ],
  denial: 418,
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    return { lines, charges: [charge("answering", key, few)] };
  },
};

export const denialsUntilBan = 3;

const banned: Scenario = {
  name: "banned",
  policies: [
    {
      name: "banned",
      match: allOf("banned"),
      key: "header:X-Key",
      limits: fixed(5),
      ban: { after: denialsUntilBan, within: "30 days", for: "30 days" },
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    return { lines, charges: [charge("banned", key, 5)], bannable: key ?? "(no key)" };
  },
};

/** One dry run has its own key and delays no request. The other dry run is decided together with an enforced policy. */
const dry: Scenario = {
  name: "dry",
  policies: [
    {
      name: "dry-alone",
      match: allOf("dry"),
      key: "query:dry",
      dryRun: true,
      limits: fixed(4),
      ban: { after: 2, within: "30 days", for: "30 days" },
      ...sharded,
    },
    {
      name: "dry-beside",
      match: allOf("dry"),
      key: "header:X-Key",
      dryRun: true,
      limits: fixed(few + 4),
      ...sharded,
    },
    {
      name: "dry-enforced",
      match: allOf("dry"),
      key: "header:X-Key",
      limits: fixed(few),
      ...sharded,
    },
    {
      name: "dry-deny",
      match: allOf("dry"),
      key: "cookie:none",
      onMissingKey: "deny",
      dryRun: true,
      limits: "1/hour",
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const alone = nameOf(draw, 3);
    return {
      lines,
      query: [`dry=${alone}`],
      charges: [
        charge("dry-alone", alone, 4, { isDryRun: true }),
        charge("dry-beside", key, few + 4, { isDryRun: true }),
        charge("dry-enforced", key, few),
      ],
    };
  },
};

/** Frames that a client sends on its WebSocket, valid or not. */
const frames = [
  "",
  "\x81\x81\0\0\0\0a",
  "\x81\x01a",
  "\x88\x80\0\0\0\0",
  "\x88\x82\0\0\0\0\x03\xe8",
  "\x88\x82\0\0\0\0\x03\xed",
  "\x88\x82\0\0\0\0\xff\xff",
  "\x88\x81\0\0\0\0\x03",
  "\x83\x81\0\0\0\0a",
  "\x80\x81\0\0\0\0a",
  "\x81\x8a\0\0\0\0ab",
  "\x82\xff\0\0\0\x01\0\0\0\0",
  "\x89\x80\0\0\0\0\x8a\x80\0\0\0\0",
];

export const slots = 3;

const slotted: Scenario = {
  name: "slots",
  policies: [
    {
      name: "slots",
      match: allOf("slots"),
      key: "header:X-Key",
      limits: { limit: slots, window: "1 hour", strategy: "concurrency" },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const key = `${secretTag}-${draw.below(2)}`;
    const isUpgrade = draw.chance(0.1);
    const lines = isUpgrade
      ? [
          "Connection: Upgrade",
          "Upgrade: websocket",
          "Sec-WebSocket-Version: 13",
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
      : [];
    return {
      ...(isUpgrade && {
        method: "GET",
        after: draw.chance(0.3) ? draw.bytes(draw.below(40)) : draw.one(frames),
      }),
      lines: [`X-Key: ${key}`, ...lines],
      ask: { slot: key, delayMs: draw.below(30), ...(isUpgrade && { status: 101 }) },
      charges: [],
      passage: { kind: "slot", key },
    };
  },
};

export const queue = { limit: 10, windowMs: 1_000, burst: 20, maxDelayMs: 200 };

const queued: Scenario = {
  name: "queue",
  policies: [
    {
      name: "queue",
      match: allOf("queue"),
      key: "header:X-Key",
      limits: { limit: queue.limit, window: "1s", strategy: "leaky-bucket", burst: queue.burst },
      maxDelay: `${queue.maxDelayMs}ms`,
      ...sharded,
    },
  ],
  draw: () => {
    const key = `${secretTag}-queue`;
    return { lines: [`X-Key: ${key}`], charges: [], passage: { kind: "queue", key } };
  },
};

export const byRule: readonly Scenario[] = [several, chain, matched, answering, banned, dry, slotted, queued];
