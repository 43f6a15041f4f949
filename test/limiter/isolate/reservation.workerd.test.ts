/** Reservation ids, with the platform's constant-time comparison. */
import { describe, expect, it } from "vitest";
import { addressOf, newAddress, reservationId } from "../../../src/limiter/isolate/reservation.ts";
import { hmacWith } from "../../../src/policy/partition-key.ts";

const sign = hmacWith("secret");
const settings = { shards: 32, locationHint: "weur", jurisdiction: "eu" } as const;
const own = { shards: null, locationHint: null, jurisdiction: null };

describe("the id of a reservation", () => {
  it("a reservation id is decoded, with the secret that encoded it, to the address of its object", async () => {
    for (const each of [settings, own]) {
      const address = newAddress("a-partition-key", each);
      // oxlint-disable no-await-in-loop
      const id = await reservationId(address, null, sign);
      expect(await addressOf(id, null, sign)).toEqual(address);
      // oxlint-enable no-await-in-loop
      expect(id).toMatch(/^[\w.-]+$/);
    }
  });

  it("each reservation id has 128 new random bits", () => {
    const ids = Array.from({ length: 100 }, () => newAddress("k", own).random);
    expect(new Set(ids).size).toBe(100);
    expect(ids.every((id) => /^[0-9a-f]{32}$/.test(id))).toBe(true);
  });

  it("a reservation id is rejected for another tenant or with another secret", async () => {
    const id = await reservationId(newAddress("k", own), "tenant-1", sign);
    expect(await addressOf(id, "tenant-1", sign)).not.toBeNull();
    expect(await addressOf(id, "tenant-2", sign)).toBeNull();
    expect(await addressOf(id, null, sign)).toBeNull();
    expect(await addressOf(id, "tenant-1", hmacWith("another"))).toBeNull();
  });

  it("a reservation id with any changed character is rejected", async () => {
    const id = await reservationId(newAddress("k", settings), null, sign);
    for (let index = 0; index < id.length; index++) {
      const changed = `${id.slice(0, index)}${id[index] === "a" ? "b" : "a"}${id.slice(index + 1)}`;
      // oxlint-disable-next-line no-await-in-loop
      expect(await addressOf(changed, null, sign)).toBeNull();
    }
    const invalid = ["", ".....", "a.b.c.d.e.f", `${id}.`, `.${id}`, id.slice(1), "x".repeat(10_000)];
    for (const each of invalid) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await addressOf(each, null, sign)).toBeNull();
    }
  });
});
