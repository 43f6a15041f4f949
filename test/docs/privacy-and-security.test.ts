/** Compares the table of docs/explanation/privacy-and-security.md with the time after which a row is idle. */
import { expect, it } from "vitest";
import { createMeter } from "../../src/strategies/index.ts";
import { configOf } from "../policy/parsed.ts";
import { readConfiguration } from "./configuration-blocks.ts";
import { codesIn, readPage, rowsOf } from "./pages.ts";

const page = readPage("docs/explanation/privacy-and-security.md");
const noonMs = Date.parse("2026-11-22T12:00:00Z");

const unitsMs: Readonly<Record<string, number>> = {
  seconds: 1_000,
  minutes: 60_000,
  days: 86_400_000,
};

it.each(rowsOf(page, "limit, for one request at noon on 22 November 2026", "row idle after"))(
  "one request against %s leaves a row that is idle after %s",
  (limit, stated = "") => {
    const { vars } = readConfiguration({
      text: `[[vars.POLICIES]]\nname = "a"\nlimits = ${codesIn(limit)[0]}\n`,
    });
    const meter = createMeter(configOf(vars).policies[0]?.limits ?? []);
    meter.consume(1, noonMs);
    const [, count, unit = ""] = /^([\d.]+) (\w+)/.exec(stated) ?? [];
    expect(meter.idleAtMs() - noonMs).toBe(Number(count) * (unitsMs[unit] ?? NaN));
  },
);
