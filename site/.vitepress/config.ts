/** The configuration of the documentation site: https://vitepress.dev/reference/site-config */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { slug } from "github-slugger";
import { defineConfig } from "vitepress";
import { playgroundPath, repositoryUrl } from "../links.ts";
import { readAsGitHub } from "../markdown.ts";
import { sidebarOf, sitePages, sitePathOf } from "../navigation.ts";

interface Manifest {
  readonly description: string;
  readonly repository: { readonly url: string };
}

const root = join(import.meta.dirname, "../..");
const manifest: Manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const repository = repositoryUrl(manifest);
const icon = readFileSync(join(root, "src/console/app/icon.svg"), "utf8");

export default defineConfig({
  title: "Headgate",
  description: manifest.description,
  lang: "en",
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  srcDir: root,
  srcExclude: ["!(README).md", "!(docs)/**/*"],
  rewrites: sitePathOf,
  outDir: join(root, "dist/site"),
  cacheDir: join(root, "dist/site-cache"),
  // `npm run docs` adds the playground, which VitePress does not know. Other dead links fail the build.
  ignoreDeadLinks: [/^https?:\/\/localhost[:/]/, new RegExp(`^${playgroundPath}`)],
  // The console has the same target. The search index is one file, which a browser loads at the first search.
  vite: { build: { target: "es2023", chunkSizeWarningLimit: 2_000 } },
  markdown: {
    // GitHub has none of these.
    attrs: { disable: true },
    emoji: { enabled: [] },
    // Links between pages use the anchors that GitHub gives to headings.
    anchor: { slugify: (text) => slug(text) },
    languageAlias: { caddyfile: "nginx", haproxy: "nginx" },
    config: (md) => readAsGitHub(md, { root, repository }),
  },
  themeConfig: {
    sidebar: sidebarOf(sitePages(root)),
    outline: { level: [2, 3] },
    socialLinks: [{ icon: "github", link: repository }],
    editLink: { pattern: `${repository}/edit/main/:path`, text: "Edit this page" },
    search: {
      provider: "local",
      options: {
        miniSearch: {
          searchOptions: {
            // Pages come before their sections. VitePress sends this function as text to the browser.
            boostDocument: (_id, _term, stored) =>
              Array.isArray(stored?.["titles"]) && stored["titles"].length === 0 ? 2 : 1,
          },
        },
      },
    },
  },
});
