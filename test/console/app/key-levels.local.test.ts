/** The pages of keys within others, in a browser: an operator goes from a user to its organisation, and back. */
import { describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { explains } from "./keys-page.ts";
import { axeViolations, horizontalOverflow } from "./page-checks.ts";

const log = { strategy: "sliding-log" };
/** The organisation of a request is its path, and the user is its address. */
const policies = [
  { name: "org", match: { path: "/api/*" }, key: ["path"], limits: "3/10m", ...log },
  { name: "user", within: "org", key: ["ip"], limits: "2/10m", ...log },
];

describe.skipIf(!hasBrowser)("the pages of keys within others in a browser", () => {
  const site = consoleSite({ policies });

  it.each([
    [1_280, 720, "light", "/api/acme"],
    [390, 844, "dark", "/api/globex"],
  ] as const)(
    "the page of a user names the organisation that denies and links to it, and that page lists its users, at %i x %i, %s",
    async (width, height, theme, org) => {
      const visit = (user: string): Promise<number> => site.worker.request(user, org);
      const [ann, bob, joe] = ["198.51.100.1", "198.51.100.2", "198.51.100.3"] as const;
      expect([await visit(ann), await visit(ann), await visit(bob), await visit(joe)]).toEqual([200, 200, 200, 429]);
      const named = await site.worker.api("POST", "/keys/explain", { body: { policy: "user", key: [org, joe] } });
      const { id } = named.body as { id: string };
      const [orgId = ""] = id.split(".");

      const page = await site.open(`keys?policy=user&id=${id}`, { theme, width, height });
      await explains(
        page,
        /^Denied for another .+ by org: the limit org is exceeded\. .+ 3 of 3 in the last 10 minutes/,
      );
      const levels = page.getByRole("region", { name: "Levels of this key" });
      await expect.poll(() => levels.getByRole("row").nth(1).textContent()).toMatch(/^org.+3 of 3Denied for another/);
      await expect
        .poll(() => levels.getByRole("row").nth(2).textContent())
        .toBe("userthis key0 of 2Allowed: every limit has room.");
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);

      await levels.getByRole("link").click();
      await page.waitForURL((url) => url.searchParams.get("id") === orgId);
      const children = page.getByRole("region", { name: "Busiest keys of user within this key", exact: true });
      // Isolates send their counts only with later requests.
      await expect
        .poll(
          async () => {
            await visit(joe);
            return children.getByRole("row").count();
          },
          { timeout: 30_000 },
        )
        .toBe(3);
      await expect.poll(() => children.getByRole("row").nth(1).textContent()).toMatch(/2$/);
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      await children.getByRole("link").first().click();
      await levels.waitFor();
      expect(new URL(page.url()).searchParams.get("id")).toMatch(new RegExp(`^${orgId}\\.[\\w-]{43}$`));
    },
    90_000,
  );
});
