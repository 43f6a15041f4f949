/**
 * The pages of the site, and their order in the sidebar. A page is in the section of its folder. A new page appears below
 * those named here, and pages that are not named are sorted by title.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Section {
  readonly title: string;
  /** The folder below `docs`. */
  readonly folder: string;
  /** The names of pages that come first, such as `first-limit` for `first-limit.md`. */
  readonly first?: readonly string[];
  /** Groups of pages by name, each with a title of its own. */
  readonly groups?: Readonly<Record<string, readonly string[]>>;
}

export const sections: readonly Section[] = [
  {
    title: "Tutorials",
    folder: "tutorials",
    first: ["first-limit", "protect-a-login", "limit-a-hono-worker", "ask-before-you-act"],
  },
  {
    title: "How-to guides",
    folder: "how-to",
    groups: {
      Limit: [
        "limit-by-api-key-and-plan",
        "jwt",
        "organisations-users-and-regions",
        "share-a-quota-fairly",
        "let-paying-users-go-first",
        "llm-tokens-and-budgets",
        "dollars-per-month",
        "calendar-quotas",
        "cap-concurrent-requests",
        "graphql",
        "websockets",
        "limit-a-hono-app",
        "limit-outside-a-route",
        "other-frameworks",
        "express-and-fastify",
      ],
      Integrate: [
        "from-typescript",
        "from-other-languages",
        "from-another-worker",
        "behind-nginx",
        "behind-caddy",
        "behind-traefik",
        "behind-a-load-balancer",
        "migrate-from",
      ],
      "Choose and change limits": [
        "choose-a-limit-from-your-traffic",
        "shadow-rollout",
        "test-your-limits",
        "use-the-console",
        "operate-live",
      ],
      "Deploy and watch": [
        "deploy-with-the-button",
        "deploy-upgrade-and-roll-back",
        "environments-and-secrets",
        "rotate-secrets",
        "cloudflare-access",
        "dashboards-and-alerts",
      ],
    },
  },
  { title: "Reference", folder: "reference" },
  {
    title: "Explanation",
    folder: "explanation",
    first: ["how-a-request-flows", "exactness", "consistency", "durability", "choosing-objects", "comparison"],
  },
  {
    title: "Operate",
    folder: "operate",
    first: ["why-was-this-denied", "when-the-durable-object-is-unavailable"],
  },
  { title: "Benchmarks", folder: "benchmarks", first: ["results"] },
  { title: "Examples", folder: "examples", first: ["README"] },
];

export interface SitePage {
  /** The path from the root of the repository, such as `docs/how-to/jwt.md`. */
  readonly file: string;
  /** The path from the root of the site, such as `how-to/jwt.md`. */
  readonly path: string;
  readonly title: string;
}

/** An item of VitePress's sidebar. */
export interface Item {
  readonly text: string;
  readonly link?: string;
  readonly collapsed?: boolean;
  readonly items?: Item[];
}

/** README.md is the first page of the site, and that of a folder is the first page of the folder. */
export const sitePathOf = (file: string): string =>
  file.replace(/^docs\//, "").replace(/(^|\/)README\.md$/, "$1index.md");

/** @param root the root of the repository */
export const sitePages = (root: string): SitePage[] =>
  [
    "README.md",
    ...globSync("docs/**/*.md", { cwd: root })
      .map((file) => file.replaceAll("\\", "/"))
      .toSorted(),
  ].map((file) => ({ file, path: sitePathOf(file), title: titleIn(readFileSync(join(root, file), "utf8")) }));

const titleIn = (text: string): string => (/^# (.+)$/m.exec(text)?.[1] ?? "").replaceAll("`", "");

/** @throws Error for a page that is in no section, and for a name without a page */
export function sidebarOf(pages: readonly SitePage[]): Item[] {
  const folders = new Set(sections.map(({ folder }) => folder));
  for (const { file } of pages) {
    const [, folder = ""] = file.split("/");
    if (file !== "README.md" && !folders.has(folder)) {
      throw new Error(`${file}: expected a page in a folder of site/navigation.ts: ${[...folders].join(", ")}`);
    }
  }
  return sections.map((section) => ({
    text: section.title,
    collapsed: section.folder !== "tutorials",
    items: itemsOf(section, pages),
  }));
}

function itemsOf({ folder, first = [], groups = {} }: Section, pages: readonly SitePage[]): Item[] {
  const own = new Map(
    pages
      .filter(({ file }) => file.startsWith(`docs/${folder}/`))
      .map((page) => [page.file.slice(`docs/${folder}/`.length, -".md".length), page]),
  );
  const titles = new Set([...own.values()].map(({ title }) => title));
  /** A title such as "Logs: every event" is too long for the sidebar, unless another page is named "Logs". */
  const itemOf = ({ path, title }: SitePage): Item => {
    const short = title.replace(/:\s.*/, "");
    return { text: titles.has(short) ? title : short, link: `/${path.replace(/(?:index)?\.md$/, "")}` };
  };
  const take = (name: string): Item => {
    const page = own.get(name);
    if (page === undefined) throw new Error(`site/navigation.ts: docs/${folder}/${name}.md does not exist`);
    own.delete(name);
    return itemOf(page);
  };
  const named = [
    ...first.map(take),
    ...Object.entries(groups).map(([text, names]) => ({ text, collapsed: false, items: names.map(take) })),
  ];
  const others = [...own.values()].map(itemOf).toSorted((a, b) => a.text.localeCompare(b.text, "en"));
  return [...named, ...others];
}
