# The script of one user: `sh script.sh CORPUS KIND.PART...`, in the user's own directory. CORPUS is
# as seen from the directory of a job.
#
# Each job works in a fresh directory on a part of the corpus, writes what it found to a file, and
# adds `KIND.PART CHECKSUM SIZE` to the user's results. What it writes depends on the corpus alone:
# not on the order of a directory, on times, on numbers of processes, or on an object file's bytes.
set -u
corpus=$1
shift

job_edit() {
	cp "$part/text" text || return
	ed -s text <<-'end' || return
		g/vol/s//VOL/g
		1,20m$
		g/^the /d
		/and/t0
		w
		q
	end
	sed -e 's/[aeiou]/./g' -e '5,9d' text >vowels || return
	cmp -s text vowels && return 1
	cat text vowels
}

job_cc() {
	cp "$part"/src/*.[ch] . || return
	cc -O1 -o program main.c tables.c || return
	./program <"$part/text"
}

job_make() {
	cp "$part"/src/* . || return
	make -s || return
	./program <"$part/words" || return
	rm -f tables.o
	make -s || return
	./program <"$part/table" || return
	make -s clean
}

job_sort() {
	sort -k2,2n -k1,1 "$part/table" >by-number || return
	sort -r "$part/words" | uniq >words || return
	sort -k3,3nr -k1,1 by-number | sed 40q
	cat by-number words
}

job_awk() {
	awk '{ sum[$1] += $2; n[$1]++ } END { for (k in sum) print k, n[k], sum[k] }' "$part/table" | sort || return
	tr -cs a-z '\n' <"$part/text" | awk '{ seen[$1]++ } END { for (w in seen) print seen[w], w }' | sort -k1,1nr -k2,2
}

job_comm() {
	sort -u "$part/words" >ours || return
	tr -cs a-z '\n' <"$part/text" | sort -u >theirs || return
	comm -12 ours theirs
	comm -3 ours theirs | tr -d '\t'
}

job_pr() {
	fold -s -w 36 "$part/text" >folded || return
	pr -t -2 -l 60 -w 76 folded | tr -s ' \t' ' ' >columns || return
	tail -n 100 columns
	wc -l <folded | tr -d ' '
	cat columns
}

job_tar() {
	tar cf all.tar -C "$part" tree || return
	tar tf all.tar | sort || return
	mkdir copy && tar xof all.tar -C copy || return
	find copy -type f | sort | xargs cat
}

job_cpio() {
	(cd "$part" && find tree -type f | sort | cpio -o -H newc --quiet) >all.cpio || return
	mkdir copy && (cd copy && cpio -i -d -m --quiet --no-preserve-owner <../all.cpio) || return
	find copy -type f | sort | xargs cat
}

job_gzip() {
	cat "$part/text" "$part/table" >plain || return
	gzip -n -9 <plain >small.gz && gzip -t small.gz || return
	gzip -d -c small.gz >again && cmp plain again || return
	cat again
}

job_grep() {
	cp -R "$part/tree" tree || return
	find tree -type f -name '*.txt' | sort | xargs grep -c the
	grep -r -h -i 'vol' tree | sort || return
	find tree -type f -newer /dev/null -print | sort | tail -n 5 >newer
	find tree -name 'f[0-2].txt' | sort
}

job_files() {
	mkdir -p a/b/c d || return
	for file in "$part"/tree/d0/*; do
		cp "$file" a/b/c && cp -p "$file" d || return
	done
	mv a/b/c/f0.txt a/moved && touch a/b/c/empty && chmod 600 a/moved || return
	cat d/* >>a/joined || return
	ls -l a d >long || return
	ls -1 a a/b a/b/c d
	test -s a/joined && test ! -e a/b/c/f0.txt || return
	rm a/b/c/* && rmdir a/b/c a/b && mv d e && rm -r e || return
	cat a/moved a/joined
}

job_shell() {
	i=0 sum=0
	while [ "$i" -lt 12 ]; do
		i=$(expr "$i" + 1)
		sum=$(expr "$sum" + "$i" \* "$i")
		case $i in
		*[13579]) echo "odd $i $sum" ;;
		*) echo "even $i $sum" ;;
		esac
	done
	date >now
	head -n 30 "$part/words" | while read -r word; do
		echo "${#word} $word ${word%[aeiou]*}"
	done
	sh -c 'for n in 1 2 3; do (echo "$n"); done'
}

job_ps() {
	ps -e -o pid=,comm= >all || return
	awk -v pid="$$" '$1 == pid { print $2 }' all
	ps -o ppid= -p "$$" >parent && wc -l <parent | tr -d ' '
}

# The barrier: input ends when every user is here.
echo ready
read -r _
n=0
for job; do
	n=$(expr "$n" + 1)
	kind=${job%.*}
	part=$corpus/${job##*.}
	mkdir "job$n" && cd "job$n" || exit
	TMPDIR=$PWD
	export TMPDIR
	"job_$kind" >out || exit
	sum=$(cksum <out) || exit
	cd .. || exit
	echo "$job $sum" >>results || exit
	rm -r "job$n" || exit
done
